package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// A sent is one patch that has gone to the server.
type sent struct {
	path, query, contentType string
	body                     map[string]any
}

// part is what the patch has at a path of fields.
func (s sent) part(fields ...string) any {
	var value any = s.body
	for _, field := range fields {
		inner, _ := value.(map[string]any)
		value = inner[field]
	}
	return value
}

// A postbox notes the patches that an operator sends.
type postbox struct {
	mu   sync.Mutex
	list []sent
}

func (p *postbox) all() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]sent(nil), p.list...)
}

// paths are where the patches went to.
func (p *postbox) paths() []string {
	var paths []string
	for _, s := range p.all() {
		paths = append(paths, s.path)
	}
	return paths
}

// noting has the patches noted on their way.
func (p *postbox) noting() setup {
	return withFaults(func(r *http.Request, _ int64, next http.RoundTripper) (*http.Response, error) {
		if err := p.note(r); err != nil {
			return nil, err
		}
		return next.RoundTrip(r)
	})
}

func (p *postbox) note(r *http.Request) error {
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
