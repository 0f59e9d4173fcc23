package agentd

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestServerSentEventsAreReadHoweverTheyAreCut(t *testing.T) {
	source := "\uFEFFid: 1\nevent: a\ndata: one\r\ndata:two\r\n\r\n: note\nretry: 1500\n\ndata: äöü\r\rid: 3\n\ndata: last\n\ndata: never"
	readers := map[string]io.Reader{"whole": strings.NewReader(source), "byte by byte": iotest.OneByteReader(strings.NewReader(source))}
	for name, source := range readers {
		reader := newSSEReader(source)
		var all []string
		for {
			frame, err := reader.next()
			if err != nil {
				all = append(all, err.Error())
				break
			}
			all = append(all, fmt.Sprintf("%q %s %s", frame.data, frame.event, frame.id))
		}
		want := []string{`"one\ntwo" a 1`, `"äöü" message 1`, `"last" message 3`, "EOF"}
		if fmt.Sprint(all) != fmt.Sprint(want) {
			t.Errorf("%s: %v", name, all)
		}
		if reader.comment != "note" || reader.retry.Milliseconds() != 1500 {
			t.Errorf("%s: %q %v", name, reader.comment, reader.retry)
		}
	}
}

func TestNullableMembersAreLeftOutNullOrAValue(t *testing.T) {
	cases := map[string]Nullable[int64]{"{}": nil, `{"n":null}`: Null[int64](), `{"n":7}`: Some(int64(7))}
	for want, value := range cases {
		request := newRequest("POST", "")
		request.json(struct {
			N Nullable[int64] `json:"n,omitempty"`
		}{value})
		if string(request.body) != want {
			t.Errorf("%s instead of %s", request.body, want)
		}
	}
}

func TestAPathParameterCannotChangeThePathAroundIt(t *testing.T) {
	for _, value := range []string{"", ".", ".."} {
		if newRequest("GET", "", "/v1/runs/", segment(value)).err == nil {
			t.Errorf("%q was accepted", value)
		}
	}
	if path := newRequest("GET", "", "/v1/runs/", segment("a/b?c#d")).path; path != "/v1/runs/a%2Fb%3Fc%23d" {
		t.Error(path)
	}
}
