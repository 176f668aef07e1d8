package children

import (
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Option is a choice for an [Owner].
type Option func(*options)

type options struct {
	controller, blockDeletion bool
	forced, strict, takeOver  bool
	name, namespace           *string
	labels                    map[string]string // not nil: instead of the owner's
	nested                    [][]string
	plainTemplates            bool
	fieldOwner                string
	reader                    client.Reader
	mistake                   error
}

// Controller says whether the owner is the controller of its children, of which each has one at most. The default
// is true.
func Controller(is bool) Option { return func(o *options) { o.controller = is } }

// BlockOwnerDeletion says whether a deletion of the owner in the foreground waits for its children. The default is
// true.
func BlockOwnerDeletion(does bool) Option { return func(o *options) { o.blockDeletion = does } }

// Forced overwrites the names, namespaces and labels that children have. The default is to fill in what is missing
// (kopf: forced=).
func Forced() Option { return func(o *options) { o.forced = true } }

// Strict gives children the name of the owner as it is; the default is a prefix, to which the server adds a few
// letters (kopf: strict=).
func Strict() Option { return func(o *options) { o.strict = true } }

// Named is the name to use instead of the owner's (kopf: name=).
func Named(name string) Option { return func(o *options) { o.name = &name } }

// InNamespace is the namespace to use instead of the owner's (kopf: namespace=).
func InNamespace(namespace string) Option { return func(o *options) { o.namespace = &namespace } }

// Labels are those to use instead of the owner's; none, if it is nil (kopf: labels=).
func Labels(labels map[string]string) Option {
	return func(o *options) {
		o.labels = map[string]string{}
		maps.Copy(o.labels, labels)
	}
}

// Nested names structures within children that are labelled too, as dotted paths: "spec.template" is for the labels
// in spec.template.metadata. What a child does not have is skipped. The templates of pods in the kinds of Kubernetes
// are known and need not be named (kopf: nested=).
func Nested(paths ...string) Option {
	return func(o *options) {
		for _, path := range paths {
			names := strings.Split(path, ".")
			for _, name := range names {
				if name == "" {
					o.mistake = fmt.Errorf("the nested path %q is none: name fields as in spec.template", path)
				}
			}
			o.nested = append(o.nested, names)
		}
	}
}

// PlainTemplates leaves the templates of pods alone, unless they are named in [Nested]: then a new label of the owner
// does not restart the pods of its children.
func PlainTemplates() Option { return func(o *options) { o.plainTemplates = true } }

// FieldOwner is the name under which [Owner.Apply] owns fields: that of the operator, and always the same. Apply
// needs it; to [Owner.Create] it is of use.
func FieldOwner(name string) Option { return func(o *options) { o.fieldOwner = name } }

// ReadWith is what Apply and Create read children with. The default is the client. That of a manager reads from its
// cache, and starts to watch all objects of the kind if nobody does yet; the manager's GetAPIReader asks the server.
func ReadWith(reader client.Reader) Option { return func(o *options) { o.reader = reader } }

// TakeOver has Apply and Create accept objects that are there already and belong to nobody. The default is to refuse
// them: they would be deleted with the owner.
func TakeOver() Option { return func(o *options) { o.takeOver = true } }
