package daemons

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Busy reports whether runs of the object are to be waited for: they have not ended, and were not abandoned. As long as
// it is so, the object's finalizer stays.
func (s *Supervisor) Busy(uid types.UID) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.objects[uid].busy()
}

// Ended reports whether a daemon or timer has come to an end by itself, for good: it needs no finalizer
// any more. Timers that have failed are not at an end, as they can be woken.
func (s *Supervisor) Ended(key Key) bool {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	return j != nil && j.phase == ended
}

// Wait returns when the object is not busy any more, or the context ends: then with its cause. It does not
// stop anything.
func (s *Supervisor) Wait(ctx context.Context, uid types.UID) error {
	for {
		quiet := s.quiet(uid)
		if quiet == nil {
			return nil
		}
		select {
		case <-quiet:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// quiet is closed when the object is not busy any more; nil if it is not.
func (s *Supervisor) quiet(uid types.UID) <-chan struct{} {
	s.mu.Lock()
	defer s.unlock()
	o := s.objects[uid]
	if !o.busy() {
		return nil
	}
	if o.quiet == nil {
		o.quiet = make(chan struct{})
	}
	return o.quiet
}
