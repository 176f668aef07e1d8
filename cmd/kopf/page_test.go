package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPage_InvalidFlags(t *testing.T) {
	for args, part := range map[string]string{
		"":                          "--operator is missing",
		"--operator nowhere":        "set a URL",
		"--operator https://x more": "unknown command",
		"--operator https://x --address nowhere:nothing": "--address: ",
	} {
		if out, err := kopf(t, append([]string{"page"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %v, want %s; output:\n%s", args, err, part, out)
		}
	}
}

// The command adds the token to requests for the page, and forwards no others.
func TestPage_AddsTheToken(t *testing.T) {
	operator := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(operator.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the test ends soon
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	endpoint := operatorEndpoint{url: operator.URL, token: "secret", insecure: true}
	go func() { ended <- endpoint.serve(ctx, listener) }()
	send := func(method, path, host string) (status int, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path, nil)
		must(t, err)
		request.Header.Set("Authorization", "Bearer other")
		if host != "" {
			request.Host = host
		}
		response, err := (&http.Client{CheckRedirect: refuseRedirect}).Do(request)
		must(t, err)
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(text)
	}
	get := func(path, host string) (status int, body string) { return send(http.MethodGet, path, host) }
	if status, body := get("/kopf/objects", ""); status != http.StatusOK || body != "/kopf/objects Bearer secret" {
		t.Errorf("got %d %q, want the path with the token", status, body)
	}
	for _, path := range []string{"/metrics", "/kopf/../metrics", "/kopf/%2e%2e/metrics", "/kopf/..%2fmetrics", "/kopf/objects/../../metrics", "/kopf/other", "//kopf/objects"} {
		if status, body := get(path, ""); status != http.StatusFound || strings.Contains(body, "secret") {
			t.Errorf("got %d %q for the path %s, want a redirect to the page", status, body, path)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect} {
		if status, body := send(method, "/kopf/objects", ""); status != http.StatusMethodNotAllowed || strings.Contains(body, "secret") {
			t.Errorf("got %d %q for %s, want 405", status, body, method)
		}
	}
	if status, _ := send(http.MethodHead, "/kopf/explain?kind=A&name=b", ""); status != http.StatusOK {
		t.Errorf("got status %d for HEAD", status)
	}
	if status, body := get("/kopf/objects", "evil.example.com"); status != http.StatusForbidden || strings.Contains(body, "secret") {
		t.Errorf("got %d %q for another host, want 403", status, body)
	}
	stop()
	must(t, <-ended)
}
