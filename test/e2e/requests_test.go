package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// sent is a patch that was sent to the server.
type sent struct {
	path, query, contentType string
	body                     map[string]any
}

// part returns the value at a path of the patch.
func (s sent) part(fields ...string) any {
	var value any = s.body
	for _, field := range fields {
		inner, _ := value.(map[string]any)
		value = inner[field]
	}
	return value
}

// A patchRecorder records the patches of an operator.
type patchRecorder struct {
	mu   sync.Mutex
	list []sent
}

func (p *patchRecorder) all() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]sent(nil), p.list...)
}

// paths returns the URL paths of the patches.
func (p *patchRecorder) paths() []string {
	var paths []string
	for _, s := range p.all() {
		paths = append(paths, s.path)
	}
	return paths
}

// setup adds the recorder to an operator.
func (p *patchRecorder) setup() setup {
	return withFaults(func(r *http.Request, _ int64, next http.RoundTripper) (*http.Response, error) {
		if err := p.note(r); err != nil {
			return nil, err
		}
		return next.RoundTrip(r)
	})
}

func (p *patchRecorder) note(r *http.Request) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(text))
	one := sent{path: r.URL.Path, query: r.URL.RawQuery, contentType: r.Header.Get("Content-Type")}
	if err := json.Unmarshal(text, &one.body); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, one)
	return nil
}
