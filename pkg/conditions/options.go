package conditions

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Option defines where the conditions are stored, or how [Write] behaves.
type Option func(*options)

type options struct {
	path               []string
	asMap              bool
	adapter            Adapter
	reader             client.Reader
	withoutSubresource bool
	since              client.Object
	onSet              func(conditionType string)
}

func optionsOf(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// At selects a field other than status.conditions, as a dotted path of JSON names such as "status.health.conditions". [For] then ignores
// GetConditions and SetConditions of the Go type.
func At(path string) Option {
	return func(o *options) { o.path = strings.Split(path, ".") }
}

// AsMap stores the conditions of an unstructured object that has none yet as a map from type to condition. Existing maps, and maps in Go
// types, are detected without it.
func AsMap() Option {
	return func(o *options) { o.asMap = true }
}

// Using selects an adapter, for example for fields with other names. If the conditions are outside of the status, the adapter's Put and
// List must omit ObservedGeneration. Otherwise each write would increase the generation and cause the next write.
func Using(adapter Adapter) Option {
	return func(o *options) { o.adapter = adapter }
}

// ReadWith selects the reader that [Write] uses after a conflict. Default: the client. If that reads from a cache, pass the manager's
// APIReader.
func ReadWith(reader client.Reader) Option {
	return func(o *options) { o.reader = reader }
}

// WithoutSubresource is for kinds without the status subresource: [Write] patches the object itself. It sets observedGeneration only to
// values you pass, because every write increases the generation and would cause the next write.
func WithoutSubresource() Option {
	return func(o *options) { o.withoutSubresource = true }
}

// Since passes the last written version of an object that was changed in memory. If a condition changes and returns to its written status
// before the next write, it keeps its transition time.
func Since(written client.Object) Option {
	return func(o *options) { o.since = written }
}

// OnSet calls a function with the type of each condition that the Set sets, even if nothing changes. Use it to find out which conditions a
// piece of code reports.
func OnSet(fn func(conditionType string)) Option {
	return func(o *options) { o.onSet = fn }
}
