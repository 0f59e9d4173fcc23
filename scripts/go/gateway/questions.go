package gateway

import (
	"context"
	"encoding/json"
)

// question is an open question of the agent.
type question struct {
	id     string
	method string
	params json.RawMessage
	// on is the connection on which it is an open request; nil when it only came with a session.
	on        *connection
	sessionID string
	answer    any
	isAsked   bool
	withdrawn context.CancelFunc
}

// ask asks the host. A known question is not asked again; if it was answered, the answer is sent again. The mutex is held.
func (c *Client) ask(asked *question) {
	if c.options.Questions == nil {
		return
	}
	if known, ok := c.questions[asked.id]; ok {
		if asked.on != nil {
			known.on = asked.on
		}
		if known.isAsked && known.answer != nil {
			go c.sendAnswer(known, known.answer, known.on)
		}
		return
	}
	var head struct {
		SessionID string `json:"session_id"`
	}
	_ = json.Unmarshal(asked.params, &head)
	asked.sessionID = head.SessionID
	ctx, cancel := context.WithCancel(context.Background())
	asked.withdrawn = cancel
	c.questions[asked.id] = asked
	go c.hold(ctx, asked)
}

func (c *Client) hold(ctx context.Context, asked *question) {
	answer, err := c.options.Questions.answer(ctx, asked.method, asked.params)
	if ctx.Err() != nil {
		return
	}
	c.mutex.Lock()
	if err != nil {
		c.notify(asked.sessionID, &Notice{Kind: NoticeQuestionFailed, RequestID: asked.id, Message: err.Error()})
		answer = nil
	}
	asked.answer, asked.isAsked = answer, true
	if answer == nil {
		delete(c.questions, asked.id)
	}
	on := asked.on
	c.mutex.Unlock()
	c.sendAnswer(asked, answer, on)
}

// sendAnswer answers on the question's connection, or by a call when that is gone. A nil answer declines.
func (c *Client) sendAnswer(asked *question, answer any, on *connection) {
	c.mutex.Lock()
	isHere := on != nil && on == c.current && !on.isCut()
	c.mutex.Unlock()
	if isHere {
		frame := map[string]any{"jsonrpc": "2.0", "id": asked.id, "result": answer}
		if answer == nil {
			delete(frame, "result")
			frame["error"] = map[string]any{"code": -32601, "message": "declined"}
		}
		if err := on.write(frame); err != nil {
			on.end(err)
		}
		return
	}
	if answer == nil {
		return
	}
	// Another client may have answered first; or the connection is cut, and the question is sent again.
	params := map[string]any{"id": asked.id, "session_id": asked.sessionID, "result": answer}
	_, _ = c.Call(context.Background(), "request.answer", params)
}

// withdraw ends a question that is no longer open. The mutex is held.
func (c *Client) withdraw(id string) {
	if known, ok := c.questions[id]; ok {
		known.withdrawn()
		delete(c.questions, id)
	}
}

// keepQuestions ends the questions of a session except those that are still open. The mutex is held.
func (c *Client) keepQuestions(sessionID string, stillOpen map[string]bool, conn *connection) {
	for id, known := range c.questions {
		if known.sessionID == sessionID && !stillOpen[id] && known.on != conn {
			c.withdraw(id)
		}
	}
}

// ask calls a question function; nil declines.
func ask[P, A any](ctx context.Context, handler func(context.Context, *P) (*A, error), params []byte) (any, error) {
	if handler == nil {
		return nil, nil
	}
	question, err := decode[P](params)
	if err != nil {
		return nil, err
	}
	answer, err := handler(ctx, question)
	if err != nil || answer == nil {
		return nil, err
	}
	return answer, nil
}
