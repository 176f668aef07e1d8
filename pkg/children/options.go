package children

import (
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Option configures an [Owner].
type Option func(*options)

type options struct {
	controller, blockDeletion bool
	force, strict, takeOver   bool
	name, namespace           *string
	labels                    map[string]string // replace the owner's labels, unless nil
	nested                    [][]string
	plainTemplates            bool
	fieldOwner                string
	reader                    client.Reader
	err                       error
}

// Controller sets whether the owner reference is a controller reference. An object can have only one. Default: true.
func Controller(enabled bool) Option { return func(o *options) { o.controller = enabled } }

// BlockOwnerDeletion makes a foreground deletion of the owner wait for its children. Default: true.
func BlockOwnerDeletion(enabled bool) Option { return func(o *options) { o.blockDeletion = enabled } }

// Forced overwrites existing names, namespaces and labels of children. By default, only missing values are set. Equivalent in kopf:
// forced=.
func Forced() Option { return func(o *options) { o.force = true } }

// Strict gives children the exact name of the owner. By default, the name is a prefix to which the API server adds a suffix.
// Equivalent in kopf: strict=.
func Strict() Option { return func(o *options) { o.strict = true } }

// Named sets the name to use instead of the owner's. Equivalent in kopf: name=.
func Named(name string) Option { return func(o *options) { o.name = &name } }

// InNamespace sets the namespace to use instead of the owner's. Equivalent in kopf: namespace=.
func InNamespace(namespace string) Option { return func(o *options) { o.namespace = &namespace } }

// Labels sets the labels to use instead of the owner's. A nil map disables labels. Equivalent in kopf: labels=.
func Labels(labels map[string]string) Option {
	return func(o *options) {
		o.labels = map[string]string{}
		maps.Copy(o.labels, labels)
	}
}

// Nested selects nested structures to label, as dotted paths: "spec.template" selects the labels in spec.template.metadata. Missing
// structures are skipped. Pod templates of built-in kinds are labeled by default, see [PlainTemplates]. Equivalent in kopf: nested=.
func Nested(paths ...string) Option {
	return func(o *options) {
		for _, path := range paths {
			names := strings.Split(path, ".")
			for _, name := range names {
				if name == "" {
					o.err = fmt.Errorf("invalid nested path %q: use field names such as spec.template", path)
				}
			}
			o.nested = append(o.nested, names)
		}
	}
}

// PlainTemplates doesn't add labels to pod templates, except to those selected with [Nested], so that a new label on the owner doesn't
// restart its children's pods.
func PlainTemplates() Option { return func(o *options) { o.plainTemplates = true } }

// FieldOwner sets the field manager for [Owner.Apply] and [Owner.Create]. Apply requires it. Use a name that never changes, such as that of
// the operator.
func FieldOwner(name string) Option { return func(o *options) { o.fieldOwner = name } }

// ReadWith sets the reader for children. Default: the client. A manager's client reads from the cache and starts a watch for each kind,
// while its APIReader reads from the API server.
func ReadWith(reader client.Reader) Option { return func(o *options) { o.reader = reader } }

// TakeOver allows Apply to take over existing objects that don't belong to the owner, and Create to accept them unchanged. If they have a
// different controller, you also need Controller(false). By default, both return an error. An object that Apply takes over is deleted
// together with the owner.
func TakeOver() Option { return func(o *options) { o.takeOver = true } }
