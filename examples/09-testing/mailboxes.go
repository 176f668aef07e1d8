package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/09-testing/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Request is the request that the handlers receive.
type Request = kopf.Request[*v1.Mailbox]

// A Server manages mailboxes outside of the cluster.
type Server interface {
	// Open creates a mailbox, or finds the existing one, and returns its address.
	Open(ctx context.Context, name string, quota int) (string, error)
	// Resize changes the quota of a mailbox.
	Resize(ctx context.Context, name string, quota int) error
	// Close removes a mailbox. It returns no error if the mailbox does not exist.
	Close(ctx context.Context, name string) error
}

// errBusy is the error of a server that is overloaded.
var errBusy = errors.New("the mail server is busy")

// mailboxes declares the handlers. It takes the server, so that a test can pass another one.
func mailboxes(server Server) *kopf.Resource[*v1.Mailbox] {
	return kopf.For(&v1.Mailbox{}).
		OnCreateOrUpdate("open", open(server)). // also for updates, so that an edit can fix a rejected quota
		OnField("resize", "spec.quota", resize(server), kopf.Backoff(10*time.Second)).
		OnDelete("close", func(ctx context.Context, req *Request) error { return server.Close(ctx, req.Object.Name) })
}

func open(server Server) kopf.Handler[*v1.Mailbox] {
	return func(ctx context.Context, req *Request) error {
		if req.Object.Spec.Quota <= 0 {
			return kopf.Permanent(errors.New("spec.quota must be positive"))
		}
		address, err := server.Open(ctx, req.Object.Name, req.Object.Spec.Quota)
		if errors.Is(err, errBusy) {
			return kopf.Temporary(err, 5*time.Second)
		}
		req.Object.Status.Address = address
		return err
	}
}

func resize(server Server) kopf.Handler[*v1.Mailbox] {
	return func(ctx context.Context, req *Request) error {
		before, now := req.Field()
		if before == nil {
			return nil // open has already set the quota of a new mailbox
		}
		req.Eventf("Normal", "Resized", "Resize", "from %v to %v", before, now)
		return server.Resize(ctx, req.Object.Name, req.Object.Spec.Quota)
	}
}

// A memory is an in-memory server for this example and its tests.
type memory struct {
	mu     sync.Mutex
	quotas map[string]int
	busy   int // number of calls of Open that fail
}

func (m *memory) Open(_ context.Context, name string, quota int) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy > 0 {
		m.busy--
		return "", errBusy
	}
	if _, ok := m.quotas[name]; !ok {
		m.quotas[name] = quota
	}
	return name + "@example.com", nil
}

func (m *memory) Resize(_ context.Context, name string, quota int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.quotas[name]; !ok {
		return fmt.Errorf("there is no mailbox %s", name)
	}
	m.quotas[name] = quota
	return nil
}

func (m *memory) Close(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.quotas, name)
	return nil
}
