package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A cable is a transport whose watches can be cut. When it is mended, what was said meanwhile is lost: the
// server does not remember it, and everything has to be listed again.
type cable struct {
	mu      sync.Mutex
	next    http.RoundTripper
	severed bool
	lost    bool // what was said while it was severed
	open    map[*watched]bool
}

func (c *cable) setup() setup {
	return through(func(next http.RoundTripper) http.RoundTripper { c.next = next; return c })
}

// cut ends all watches, and lets none begin.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed, c.lost = true, true
	for body := range c.open {
		_ = body.ReadCloser.Close()
	}
	c.open = nil
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed = false
}

// restore mends the cable and loses nothing.
func (c *cable) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.severed, c.lost = false, false
}

func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("watch") == "" {
		return c.next.RoundTrip(r)
	}
	fromList := query.Get("sendInitialEvents") == "true"
	c.mu.Lock()
	severed, forgotten := c.severed, c.lost && !fromList
	c.mu.Unlock()
	if severed {
		return nil, errors.New("the cable is cut, says the test")
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
	body := &watched{ReadCloser: response.Body, cable: c}
	if c.open == nil {
		c.open = map[*watched]bool{}
	}
	c.open[body], response.Body = true, body
	return response, nil
}

// expired is what the server says to those who ask for what it does not remember.
func expired(r *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired("too old, says the test").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	text, err := json.Marshal(status)
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(text)),
	}, err
}

// A watched body is known until it is closed.
type watched struct {
	io.ReadCloser
	cable *cable
}

func (w *watched) Close() error {
	w.cable.mu.Lock()
	delete(w.cable.open, w)
	w.cable.mu.Unlock()
	return w.ReadCloser.Close()
}
