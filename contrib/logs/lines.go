package logs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

const (
	// DefaultBookmark is the interval between two writes of the bookmark without the option [Bookmark].
	DefaultBookmark = 30 * time.Second
	// MaxText is the maximum length of [Line.Text] in bytes.
	MaxText = 64 << 10
)

// A Line is a line in the log of a container.
type Line struct {
	// Container is the name of the container.
	Container string
	// Time is the time at which the container runtime received the line.
	Time time.Time
	// Text is the line without the line break. It has at most [MaxText] bytes.
	Text string
	// Truncated reports whether the line was longer than [MaxText].
	Truncated bool
}

// A Func handles a line. The parameter req is the request of the daemon, so the function can use its Client, Latest and Eventf. The operator writes
// changes to Request.Object when the attempt of the daemon ends. The context ends when the daemon must stop.
type Func func(ctx context.Context, req *kopf.Request[*corev1.Pod], line Line) error

// An Option configures [Lines].
type Option func(*options)

type options struct {
	clientset  kubernetes.Interface
	fn         Func
	match      *regexp.Regexp
	containers []string // empty for all containers
	since      *time.Duration
	bookmark   time.Duration
	memo       *kopf.Memo[*state]
	errs       []error
}

func (o *options) addErrorf(format string, args ...any) {
	o.errs = append(o.errs, fmt.Errorf(format, args...))
}

func (o *options) checkUnit(option string, value time.Duration) {
	if err := validation.DurationUnit(value); err != nil {
		o.addErrorf("%s is %w", option, err)
	}
}

// Lines returns a daemon for pods that calls fn for each line in their logs. Pass the result to [kopf.Resource.Daemon]. Call Lines once for each
// daemon, and add [Needs] to the options of the operator. Without options, the function receives the lines of all containers, beginning with the
// oldest lines that the kubelet still has.
//
// The daemon follows each container with one stream. The rate limit of the clientset applies to the requests. The daemon ends when the pod has succeeded
// or failed and all its logs are read. If an argument is invalid, the daemon fails permanently with an error that lists all invalid arguments.
func Lines(clientset kubernetes.Interface, fn Func, opts ...Option) kopf.Handler[*corev1.Pod] {
	o := &options{clientset: clientset, fn: fn, bookmark: DefaultBookmark, memo: kopf.NewMemo[*state]("logs")}
	if v := reflect.ValueOf(clientset); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		o.addErrorf("the clientset is nil: pass the result of kubernetes.NewForConfig(mgr.GetConfig())")
	}
	if fn == nil {
		o.addErrorf("the function is nil: pass a function that handles a line")
	}
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	return func(ctx context.Context, req *kopf.Request[*corev1.Pod]) error {
		if len(o.errs) > 0 {
			return kopf.Permanent(fmt.Errorf("logs.Lines has invalid arguments: %w", errors.Join(o.errs...)))
		}
		return follow(ctx, o, req)
	}
}

// Match makes the daemon call the function only for lines whose [Line.Text] matches the expression.
func Match(re *regexp.Regexp) Option {
	return func(o *options) {
		if re == nil {
			o.addErrorf("Match is nil: pass a regular expression or remove the option")
		}
		o.match = re
	}
}

// Containers makes the daemon follow only the containers with these names. Default: all containers, including init and ephemeral containers.
func Containers(names ...string) Option {
	return func(o *options) {
		if len(names) == 0 {
			o.addErrorf("Containers has no names: pass at least one name or remove the option")
		}
		for _, name := range names {
			if name == "" {
				o.addErrorf("Containers has an empty name: pass names of spec.containers, spec.initContainers or spec.ephemeralContainers")
			}
		}
		o.containers = append(o.containers, names...)
	}
}

// Since makes the daemon ignore lines that are older than age when it first starts for a pod without a bookmark. With 0, it ignores all lines that
// exist at that time. Default: no line is ignored.
func Since(age time.Duration) Option {
	return func(o *options) {
		if age < 0 {
			o.addErrorf("Since must not be negative, got %s", age)
		}
		o.checkUnit("Since", age)
		o.since = &age
	}
}

// Bookmark sets the interval at which the daemon stores changed positions on the pod. The daemon also stores them when it ends, unless the pod is
// being deleted. After a crash of the process, at most the lines of one interval are repeated, if the API server has accepted the writes. Default:
// [DefaultBookmark].
func Bookmark(interval time.Duration) Option {
	return func(o *options) {
		if interval <= 0 {
			o.addErrorf("Bookmark must be positive, got %s: remove the option for the default %s", interval, DefaultBookmark)
		}
		o.checkUnit("Bookmark", interval)
		o.bookmark = interval
	}
}

// Needs declares the permission that [Lines] needs in addition to the permissions of every daemon: get for pods/log.
func Needs() kopf.Option {
	return kopf.NeedsRules(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}})
}
