package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A watchBreaker is a transport that can cut watches. After restoreWithLoss, watches return Expired, so that clients
// must list again.
type watchBreaker struct {
	only string // the resource whose watches are cut; empty for all

	mu      sync.Mutex
	next    http.RoundTripper
	severed bool
	lost    bool // events of the interruption are lost
	open    map[*watchedBody]bool
}

func (c *watchBreaker) setup() setup {
	return through(func(next http.RoundTripper) http.RoundTripper { c.next = next; return c })
}

// cut ends all watches and blocks new ones.
func (c *watchBreaker) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed, c.lost = true, true
	for body := range c.open {
		_ = body.ReadCloser.Close()
	}
	c.open = nil
}

// restoreWithLoss allows watches again. The events of the interruption are lost.
func (c *watchBreaker) restoreWithLoss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed = false
}

// restore allows watches again, without lost events.
func (c *watchBreaker) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed, c.lost = false, false
}

func (c *watchBreaker) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("watch") == "" || !strings.HasSuffix(r.URL.Path, c.only) {
		return c.next.RoundTrip(r)
	}
	fromList := query.Get("sendInitialEvents") == "true"
	c.mu.Lock()
	severed, forgotten := c.severed, c.lost && !fromList
	c.mu.Unlock()
	if severed {
		return nil, errors.New("injected: watches are cut")
	}
	if forgotten {
		return expired(r)
	}
	response, err := c.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = false
	body := &watchedBody{ReadCloser: response.Body, watchBreaker: c}
	if c.open == nil {
		c.open = map[*watchedBody]bool{}
	}
	c.open[body], response.Body = true, body
	return response, nil
}

// expired is the response of a server to a watch from a resource version that it no longer has.
func expired(r *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired("injected: too old").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(status)
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(text)),
	}, err
}

// A watchedBody is a response body that is registered until it is closed.
type watchedBody struct {
	io.ReadCloser
	watchBreaker *watchBreaker
}

func (w *watchedBody) Close() error {
	w.watchBreaker.mu.Lock()
	delete(w.watchBreaker.open, w)
	w.watchBreaker.mu.Unlock()
	return w.ReadCloser.Close()
}
