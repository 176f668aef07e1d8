package kopfmulticluster

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// healthz returns an error that names the clusters whose operators are stuck.
func (o *operators) healthz(*http.Request) error {
	return o.check(func(e *engagement) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.operator.Healthz(nil)
	})
}

// readyz returns an error that names the clusters whose operators are not ready. A replica that waits for leadership is ready.
func (o *operators) readyz(*http.Request) error {
	select {
	case <-o.leading:
	default:
		return nil
	}
	return o.check(func(e *engagement) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case e.failure != nil:
			return e.failure
		case !e.started:
			return errors.New("the operator has not started yet")
		default:
			return e.operator.Readyz(nil)
		}
	})
}

func (o *operators) check(check func(*engagement) error) error {
	o.mu.Lock()
	var engaged []*engagement
	for _, e := range o.engagements {
		engaged = append(engaged, e)
	}
	o.mu.Unlock()
	slices.SortFunc(engaged, func(a, b *engagement) int { return cmp.Compare(a.cluster.Name, b.cluster.Name) })
	var errs []error
	for _, e := range engaged {
		if err := check(e); err != nil {
			errs = append(errs, fmt.Errorf("cluster %q: %w", e.cluster.Name, err))
		}
	}
	return errors.Join(errs...)
}
