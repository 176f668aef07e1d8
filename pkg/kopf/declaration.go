package kopf

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
)

// A declaration is a handler as it is being declared.
type declaration struct {
	engine.Handler
	task     daemons.Task // of a daemon or a timer
	delay    func(client.Object) time.Duration
	id       string
	method   string // by which it was declared
	role     role
	owners   []client.Object
	mistakes []error

	judged       map[string][]match.Matcher        // of each key and field
	requirements []labels.Requirement              // of labels, as far as the server can be asked
	literals     []match.Literal                   // with which the value of the field is compared
	wanted       map[string]metav1.ConditionStatus // by WhenCondition
}

// A role is what a handler is called for.
type role int

const (
	handling role = iota // what has happened
	spying               // what is observed
	leveling             // what there is
	indexed              // what there is, before all others
	daemon               // the object, all the time
	timer                // the object, again and again
	sub                  // what its parent is called for
	acting               // the operator itself
)

func (r role) String() string {
	return [...]string{
		"a handler for causes", "an OnEvent handler", "an OnReconcile handler", "an index", "a daemon", "a timer", "a sub-handler", "an activity",
	}[r]
}

func (d *declaration) apply(opts []HandlerOption) {
	for _, opt := range opts {
		if opt != nil {
			opt(d)
		}
	}
}

// takes tells the mistake of giving an option to a handler that has no use for it.
func (d *declaration) takes(option string, by ...role) {
	if !slices.Contains(by, d.role) {
		d.mistakef("%s means nothing to %s: leave it out", option, d.role)
	}
}

func (d *declaration) mistakef(format string, args ...any) {
	d.mistakes = append(d.mistakes, fmt.Errorf(format, args...))
}

func (d *declaration) duration(option string, value time.Duration) {
	if value < 0 {
		d.mistakef("%s is negative (%s): use a duration of zero or more", option, value)
	}
	d.unit(option, value)
}

// unit reports a duration without a unit.
func (d *declaration) unit(option string, value time.Duration) {
	if err := validation.Duration(value); err != nil {
		d.mistakef("%s is %w", option, err)
	}
}

func (d *declaration) is(reason Reason) bool { return slices.Contains(d.Reasons, string(reason)) }

// fullID is what the handler is known by on the objects: that of a handler for a field ends with it, as
// in kopf (HND-03).
func (d *declaration) fullID() string {
	if d.Field == nil || d.id == "" || d.isTransition() || slices.Contains([]role{sub, indexed}, d.role) {
		return d.id
	}
	return d.id + "/" + strings.Join(d.Field.Path, ".")
}

// where names the handler in an error.
func (d *declaration) where() string { return fmt.Sprintf("%s(%q)", d.method, d.id) }
