package agentd

import (
	"context"
	"errors"
	"math/rand"
	"net/http"
	"time"
)

// RetryPolicy has the bounds of what the client repeats by itself. Only GET requests, and requests with an idempotency
// key, are ever sent again.
type RetryPolicy struct {
	// MaxRetries is how often a request is sent again after it failed.
	MaxRetries int

	// MaxReconnects is how often a cut stream is resumed before an event arrives.
	MaxReconnects int

	// FirstDelay is the wait before the second attempt. Each further wait is twice as long, up to MaxDelay.
	FirstDelay time.Duration

	// MaxDelay is the longest wait that the client chooses.
	MaxDelay time.Duration

	// MaxRetryAfter bounds what the server may ask for. A longer wait is an error, which says how long.
	MaxRetryAfter time.Duration
}

// DefaultRetry is the policy of a client that names no other.
var DefaultRetry = RetryPolicy{MaxRetries: 2, MaxReconnects: 8, FirstDelay: 500 * time.Millisecond, MaxDelay: 8 * time.Second, MaxRetryAfter: time.Minute}

// delay returns the wait after so many failures in a row, at least what the server asked for.
func (p RetryPolicy) delay(failures int, asked time.Duration) time.Duration {
	wait := p.FirstDelay
	for ; failures > 1 && wait < p.MaxDelay; failures-- {
		wait *= 2
	}
	if wait > p.MaxDelay {
		wait = p.MaxDelay
	}
	// Spread, so that the clients of a server that restarts do not all come back at once.
	wait = time.Duration(float64(wait) * (0.75 + rand.Float64()/4))
	if wait < asked {
		return asked
	}
	return wait
}

// passes returns whether the same request could succeed later.
func (p RetryPolicy) passes(err error) bool {
	var api *APIError
	if errors.As(err, &api) {
		if api.RetryAfter > p.MaxRetryAfter {
			return false
		}
		if api.ShouldRetry != nil {
			return *api.ShouldRetry
		}
		switch api.Status {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
			http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var connection *ConnectionError
	var cut *StreamCutError
	return errors.As(err, &connection) || errors.As(err, &cut)
}

func askedWait(err error) time.Duration {
	var api *APIError
	if errors.As(err, &api) {
		return api.RetryAfter
	}
	return 0
}

// sleep waits, or returns why the context ended.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
