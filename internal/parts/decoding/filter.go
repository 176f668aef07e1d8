package decoding

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A filter removes objects from responses to requests whose context contains it.
type filter struct {
	keepItem func(item []byte) bool                            // decides about a list item
	onEvent  func(eventType string, object []byte) (v verdict) // decides about a watch event
}

// A verdict decides what happens to a watch event.
type verdict int

const (
	keep   verdict = iota
	drop           // remove the event from the stream
	expire         // close the stream, so that the informer lists again
)

type filterKey struct{}

func withFilter(ctx context.Context, f filter) context.Context {
	return context.WithValue(ctx, filterKey{}, f)
}

// A transport filters responses to requests whose context contains a filter.
type transport struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the inner transport, for example to close its idle connections.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// CloseIdleConnections implements the optional method that [http.Client.CloseIdleConnections] looks for.
func (t transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	f, filtered := request.Context().Value(filterKey{}).(filter)
	if err != nil || !filtered || response.StatusCode != http.StatusOK || !isPlainJSON(response.Header) {
		return response, err
	}
	if f.onEvent != nil {
		response.Body = &eventFilter{f.onEvent, response.Body, json.NewDecoder(response.Body), nil, nil}
	} else if err := filterItems(response, f.keepItem); err != nil {
		return nil, err
	}
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	return response, nil
}

// isPlainJSON reports whether a response is JSON without a content encoding. Built-in kinds use protobuf and always decode.
func isPlainJSON(header http.Header) bool {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && media == "application/json" && header.Get("Content-Encoding") == ""
}

// filterItems filters the list in a response.
func filterItems(response *http.Response, keep func([]byte) bool) error {
	data, err := io.ReadAll(response.Body)
	if closeErr := response.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	var list map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(data, &list) != nil || json.Unmarshal(list["items"], &items) != nil {
		return nil //nolint:nilerr // not a list; the caller reports what it gets instead
	}
	kept := []json.RawMessage{}
	for _, item := range items {
		if keep(item) {
			kept = append(kept, item)
		}
	}
	if len(kept) == len(items) {
		return nil
	}
	if list["items"], err = json.Marshal(kept); err != nil {
		return err
	}
	if data, err = json.Marshal(list); err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

// An eventFilter is the body of a watch without the events that were removed.
type eventFilter struct {
	onEvent func(string, []byte) verdict
	body    io.ReadCloser
	events  *json.Decoder
	rest    []byte // what is still unread of the current event
	err     error
}

// Close implements [io.Closer].
func (f *eventFilter) Close() error { return f.body.Close() }

// Read implements [io.Reader].
func (f *eventFilter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.next()
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *eventFilter) next() {
	var data json.RawMessage
	if f.err = f.events.Decode(&data); f.err != nil {
		return
	}
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if json.Unmarshal(data, &event) != nil {
		f.rest = append(data, '\n')
		return
	}
	switch f.onEvent(event.Type, event.Object) {
	case keep:
		f.rest = append(data, '\n')
	case drop:
	case expire:
		f.rest, f.err = expiredEvent(), io.EOF
	}
}

// expiredEvent returns an event that makes an informer list again.
func expiredEvent() []byte {
	const message = "an object no longer decodes into its Go type: the objects are listed again without it"
	return fmt.Appendf(nil, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":%q,"message":%q,"reason":%q,"code":%d}}`+"\n",
		metav1.StatusFailure, message, metav1.StatusReasonExpired, http.StatusGone)
}
