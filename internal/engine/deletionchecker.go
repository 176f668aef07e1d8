package engine

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	deletionTimeout = 30 * time.Second // until endWork gives up asking the API server
	deletionRequest = 5 * time.Second  // for one request
	deletionRetry   = time.Second
	deletionChecks  = 8 // concurrent requests: an incomplete list can remove thousands of objects from the cache
)

// deletionChecker asks the API server about objects that have left the cache. It is safe for concurrent use.
type deletionChecker struct {
	mu      sync.Mutex
	asking  map[types.UID]bool
	running sync.WaitGroup
	slots   chan struct{}
	context context.Context //nolint:containedctx // the checks are not part of a reconcile
	end     context.CancelFunc
}

func newDeletionChecker() *deletionChecker {
	c := &deletionChecker{asking: map[types.UID]bool{}, slots: make(chan struct{}, deletionChecks)}
	c.context, c.end = context.WithCancel(context.Background())
	return c
}

// close cancels all checks and waits until they have returned.
func (c *deletionChecker) close() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.running.Wait()
}

// start starts checking an object, unless an earlier check hasn't called done yet.
func (c *deletionChecker) start(uid types.UID, check func(ctx context.Context, done func())) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking[uid] || c.context.Err() != nil {
		return
	}
	c.asking[uid] = true
	c.running.Go(func() {
		check(c.context, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.asking, uid)
		})
	})
}

// ask calls exists until it returns no error, but no longer than deletionTimeout.
func (c *deletionChecker) ask(ctx context.Context, exists func(context.Context) (bool, error)) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	for {
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		request, cancelRequest := context.WithTimeout(ctx, deletionRequest)
		found, err = exists(request)
		cancelRequest()
		<-c.slots
		if err == nil {
			return found, nil
		}
		select {
		case <-time.After(deletionRetry):
		case <-ctx.Done():
			return false, err
		}
	}
}
