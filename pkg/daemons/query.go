package daemons

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Busy reports whether the object has runs that have neither returned nor been abandoned. Keep the object's finalizer while Busy returns
// true.
func (s *Supervisor) Busy(uid types.UID) bool {
	s.mu.Lock()
	defer s.unlock()
	return s.objects[uid].busy()
}

// Ended reports whether a daemon or timer has ended permanently without being stopped, so that it needs no finalizer. It returns false for
// a timer that waits for [Supervisor.Touch].
func (s *Supervisor) Ended(key Key) bool {
	s.mu.Lock()
	defer s.unlock()
	j := s.objects[key.UID].find(key.ID)
	return j != nil && j.phase == ended
}

// Wait blocks until the object is no longer busy. If the context is cancelled first, it returns the cause. Wait doesn't stop any run.
func (s *Supervisor) Wait(ctx context.Context, uid types.UID) error {
	for {
		quiet := s.notBusy(uid)
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

// notBusy returns a channel that is closed when the object is no longer busy, or nil if it isn't busy.
func (s *Supervisor) notBusy(uid types.UID) <-chan struct{} {
	s.mu.Lock()
	defer s.unlock()
	o := s.objects[uid]
	if !o.busy() {
		return nil
	}
	if o.notBusy == nil {
		o.notBusy = make(chan struct{})
	}
	return o.notBusy
}
