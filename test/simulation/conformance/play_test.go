package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// play is a sequence of requests in its own namespace.
type play struct {
	name  string
	steps []step
	// partial allows additional fields in objects of the real server, for kinds with defaults.
	partial bool
}

// step is one request. Its path and body may contain {ns} and values of earlier responses: {rv} and {uid} of the last response that has them, {x.rv}
// and {x.uid} of the step x.
type step struct {
	method, path, body, media, accept string
	as                                string
}

func (s step) named(as string) step       { s.as = as; return s }
func (s step) accepting(form string) step { s.accept = form; return s }
func (s step) sentAs(media string) step   { s.media = media; return s }
func get(path string) step                { return step{method: http.MethodGet, path: path} }
func post(path, body string) step {
	return step{method: http.MethodPost, path: path, body: body, media: jsonMedia}
}
func put(path, body string) step {
	return step{method: http.MethodPut, path: path, body: body, media: jsonMedia}
}
func remove(path string) step              { return step{method: http.MethodDelete, path: path} }
func removeWith(path, options string) step { return remove(path).with(options).sentAs(jsonMedia) }
func (s step) with(body string) step       { s.body = body; return s }
func patch(path, media, body string) step {
	return step{method: http.MethodPatch, path: path, body: body, media: media}
}
func merge(path, body string) step   { return patch(path, "application/merge-patch+json", body) }
func operate(path, body string) step { return patch(path, "application/json-patch+json", body) }
func strategic(path, body string) step {
	return patch(path, "application/strategic-merge-patch+json", body)
}
func apply(path, manager, body string) step {
	return patch(path+"?fieldManager="+manager, "application/apply-patch+yaml", body)
}
func force(path, manager, body string) step { return apply(path, manager+"&force=true", body) }

const jsonMedia = "application/json"

// side is one of the two servers.
type side struct {
	name, host string
	transport  http.RoundTripper
}

// answer is the response of a server to one step. A watch has several JSON values.
type answer struct {
	Code   int
	Values []any
}

// run runs all steps. Both servers use the same namespace.
func (s side) run(t *testing.T, p play, namespace string) []answer {
	t.Helper()
	known := map[string]string{"ns": namespace}
	var out []answer
	for i, step := range p.steps {
		a, err := s.send(t, step, known)
		if err != nil {
			t.Fatalf("%s, step %d: %v", s.name, i, err)
		}
		remember(known, step.as, a)
		out = append(out, a)
	}
	return out
}

func (s side) send(t *testing.T, step step, known map[string]string) (answer, error) {
	t.Helper()
	fill := func(text string) string {
		for name, value := range known {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
		return text
	}
	r, err := http.NewRequestWithContext(t.Context(), step.method, s.host+fill(step.path), strings.NewReader(fill(step.body)))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("User-Agent", "conformance/1")
	r.Header.Set("Accept", jsonMedia)
	if step.accept != "" {
		r.Header.Set("Accept", step.accept)
	}
	if step.media != "" {
		r.Header.Set("Content-Type", step.media)
	}
	response, err := s.transport.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{response.StatusCode, values(body)}, nil
}

// values returns the JSON values of a body, or the text of a body that is not JSON. Real servers reject some requests
// with plain text.
func values(body []byte) []any {
	var out []any
	for decoder := json.NewDecoder(bytes.NewReader(body)); ; {
		var value any
		err := decoder.Decode(&value)
		switch {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			return []any{strings.TrimSpace(string(body))}
		}
		out = append(out, value)
	}
}

// remember stores the resource versions and UIDs of a response.
func remember(known map[string]string, as string, a answer) {
	if len(a.Values) != 1 {
		return
	}
	obj, _ := a.Values[0].(map[string]any)
	meta, _ := obj["metadata"].(map[string]any)
	for short, field := range map[string]string{"rv": "resourceVersion", "uid": "uid"} {
		value, ok := meta[field].(string)
		if !ok {
			continue
		}
		known[short] = value
		if as != "" {
			known[as+"."+short] = value
		}
	}
}
