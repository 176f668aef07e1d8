package e2e

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// calls records the calls of handlers, in order.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) notef(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.list...)
}

func (c *calls) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = nil
}

func (c *calls) count(entry string) int {
	n := 0
	for _, other := range c.all() {
		if other == entry {
			n++
		}
	}
	return n
}

// ok returns a handler that records its call as "id:reason" and succeeds.
func ok[T client.Object](c *calls, id string) kopf.Handler[T] {
	return func(_ context.Context, req *kopf.Request[T]) error {
		c.notef("%s:%s", id, req.Reason)
		return nil
	}
}

// awaitClosed waits until a channel is closed, or until the context ends.
func awaitClosed(ctx context.Context, closed <-chan struct{}) {
	select {
	case <-closed:
	case <-ctx.Done():
	}
}

// fails returns a handler that records its call as "id:reason#attempt" and returns an error.
func fails[T client.Object](c *calls, id string, err error) kopf.Handler[T] {
	return func(_ context.Context, req *kopf.Request[T]) error {
		c.notef("%s:%s#%d", id, req.Reason, req.Attempt.Number)
		return err
	}
}

// failsUntil returns a handler that fails before the given attempt and then succeeds.
func failsUntil[T client.Object](c *calls, id string, attempt int, err error) kopf.Handler[T] {
	return func(_ context.Context, req *kopf.Request[T]) error {
		c.notef("%s:%s#%d", id, req.Reason, req.Attempt.Number)
		if req.Attempt.Number < attempt {
			return err
		}
		return nil
	}
}
