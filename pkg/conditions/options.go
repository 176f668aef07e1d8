package conditions

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Option says where the conditions of an object are, or how [Write] is to go about it.
type Option func(*options)

type options struct {
	path    []string
	asMap   bool
	adapter Adapter
	reader  client.Reader
	whole   bool
	since   client.Object
}

func optionsOf(opts []Option) options {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// At names another field than status.conditions, as a dotted path of the names that the fields have in JSON, such
// as "status.health.conditions". Accessors of the type are not asked then.
func At(path string) Option {
	return func(o *options) { o.path = strings.Split(path, ".") }
}

// AsMap has new conditions of an unstructured object written as a map, from the type to the other fields, when
// there are none yet. A map that is there is recognised without it, and so is that of a Go type.
func AsMap() Option {
	return func(o *options) { o.asMap = true }
}

// Using has the conditions read and written by an adapter: for fields with other names. One that keeps them outside of the
// status has to leave ObservedGeneration out, in Put and in List: each write raises the generation there, which would be
// a reason for the next one.
func Using(adapter Adapter) Option {
	return func(o *options) { o.adapter = adapter }
}

// ReadWith is for [Write]: how to read the object again after a conflict. The default is the client itself; if that
// reads from a cache which may lag behind, give the manager's GetAPIReader.
func ReadWith(reader client.Reader) Option {
	return func(o *options) { o.reader = reader }
}

// WithoutSubresource is for kinds whose status is no subresource: [Write] patches the object itself. As each write
// raises the generation there, that of the status too, observedGeneration is not set unless it is given: it would be
// out of date at once, and each pass would be a write.
func WithoutSubresource() Option {
	return func(o *options) { o.whole = true }
}

// Since names the object as it was written last, if the one at hand was changed since then: a condition that is there and back again before
// the next write has its old time.
func Since(written client.Object) Option {
	return func(o *options) { o.since = written }
}
