package conditions

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Option defines the place of the conditions or the behavior of [Write].
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

// At selects a field other than status.conditions, as a dotted path of JSON names such as "status.health.conditions".
// [For] then does not use GetConditions and SetConditions of the Go type.
func At(path string) Option {
	return func(o *options) { o.path = strings.Split(path, ".") }
}

// AsMap stores new conditions of an unstructured object as a map from type to condition, if the object has no
// conditions yet. [For] detects existing maps and maps in Go types without this option.
func AsMap() Option {
	return func(o *options) { o.asMap = true }
}

// Using selects an adapter, for example for fields with other names. If the conditions are outside of the status, Put
// and List of the adapter must omit ObservedGeneration. Otherwise each write increases the generation and causes
// another write.
func Using(adapter Adapter) Option {
	return func(o *options) { o.adapter = adapter }
}

// ReadWith selects the reader with which [Write] reads the object again after a conflict. The default is the client. If
// the client reads from a cache, pass the APIReader of the manager.
func ReadWith(reader client.Reader) Option {
	return func(o *options) { o.reader = reader }
}

// WithoutSubresource is for kinds without the status subresource: [Write] patches the object itself. It sets
// observedGeneration only to given values, because every write increases the generation and would cause another
// write.
func WithoutSubresource() Option {
	return func(o *options) { o.withoutSubresource = true }
}

// Since passes the last written version of an object that was changed in memory. A condition that changes and returns
// to its written status before the next write keeps its transition time.
func Since(written client.Object) Option {
	return func(o *options) { o.since = written }
}

// OnSet calls a function with the type of each condition that the Set sets, even if the condition is already stored like that. Use it
// to learn which conditions a piece of code reports.
func OnSet(fn func(conditionType string)) Option {
	return func(o *options) { o.onSet = fn }
}
