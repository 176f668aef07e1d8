package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// Explain explains how the operator handles an object, and why it calls or doesn't call each handler. Only the type, the namespace and the
// name of obj count. Explain reads the object from the cache and calls the handlers' predicates, but changes nothing. It returns an error
// if the operator isn't running in this process, if the kind has no handlers, or if an API request fails. Explain is safe for concurrent
// use.
func (o *Operator) Explain(ctx context.Context, obj client.Object) (*explain.Explanation, error) {
	gvk, err := gvkOf(obj, o.mgr.GetScheme())
	if err != nil {
		return nil, err
	}
	return explainer{o}.Explain(ctx, gvk.GroupKind(), client.ObjectKeyFromObject(obj))
}

// WithStatusPage serves a page under /kopf/ on the manager's metrics server. The page shows all objects with their unfinished handlers. For
// a single object, it explains why the operator calls or doesn't call each handler. The command "kopf why" reads the page.
//
// The page shows the names of all objects, the values that filters test, and the errors of handlers, but never the values of Secrets or
// annotations. The metrics server must therefore authenticate its users: set FilterProvider in its options, as kubebuilder projects do. The
// operator doesn't start without it, unless you pass [AllowUnauthenticated]. Users need a role with the verb get for the nonResourceURLs
// /kopf/*.
//
// The operator keeps the last 20 attempts of each object in memory, for at most 10 000 objects, and adds them to explanations. Recording an
// attempt takes about a microsecond; the page costs nothing else until it is requested. A manager can have only one operator with the page.
func WithStatusPage(opts ...StatusPageOption) Option {
	var p statusPageOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&p)
		}
	}
	return optionFunc(func(o *Operator) {
		if o.mgr == nil { // WriteRights needs no page, and an operator without a manager doesn't start
			return
		}
		if err := checkMetricsFilter(o.mgr); err != nil && !p.allowUnauthenticated {
			o.addError(fmt.Errorf("WithStatusPage: %w: set FilterProvider: filters.WithAuthenticationAndAuthorization in Metrics of the manager's options, "+
				"or pass AllowUnauthenticated() to WithStatusPage", err))
			return
		}
		if err := o.mgr.AddMetricsServerExtraHandler(statuspage.Path, statuspage.New(explainer{o})); err != nil {
			o.addError(fmt.Errorf("WithStatusPage: %w", err))
			return
		}
		o.attempts = &statuspage.Attempts{}
		o.kinds.Settings.AttemptHooks = append(o.kinds.Settings.AttemptHooks, o.attempts.Begin)
	})
}

// A StatusPageOption configures [WithStatusPage].
type StatusPageOption func(*statusPageOptions)

type statusPageOptions struct{ allowUnauthenticated bool }

// AllowUnauthenticated serves the page even if the metrics server has no FilterProvider, so everyone who can reach its port can read the
// page. Use it if only trusted users can, for example on your own machine. You also need it if the manager isn't controller-runtime's own
// type, because the operator can't see whether its metrics server has a FilterProvider.
func AllowUnauthenticated() StatusPageOption {
	return func(p *statusPageOptions) { p.allowUnauthenticated = true }
}

// checkMetricsFilter returns an error unless the manager's metrics server has a filter or is disabled. The manager has no method for this,
// so we read unexported fields of controller-runtime's manager.
func checkMetricsFilter(mgr manager.Manager) error {
	if _, ok := mgr.(kinds.ClusterManager); ok {
		return nil // it has no metrics server, and returns an error for the page
	}
	for v := reflect.ValueOf(mgr); ; {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			break
		}
		if server := v.FieldByName("metricsServer"); server.IsValid() && server.Kind() == reflect.Interface {
			if server.IsNil() {
				return nil
			}
			for server.Kind() == reflect.Pointer || server.Kind() == reflect.Interface {
				server = server.Elem()
			}
			if server.Kind() != reflect.Struct {
				break
			}
			filter := server.FieldByName("metricsFilter")
			if !filter.IsValid() || filter.Kind() != reflect.Func {
				break
			}
			if filter.IsNil() {
				return errors.New("the metrics server does not authenticate its users, so everyone who reaches its port could read the names of all objects")
			}
			return nil
		}
		v = v.FieldByName("Manager") // embedded by a wrapper
	}
	return fmt.Errorf("the operator cannot see whether the metrics server of a %T authenticates its users", mgr)
}

// explainer is the source of the status page.
type explainer struct{ operator *Operator }

// Explain implements [statuspage.Source].
func (s explainer) Explain(ctx context.Context, kind schema.GroupKind, key types.NamespacedName) (*explain.Explanation, error) {
	engines, err := s.engines()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(engines, func(e *engine.Engine) bool { return e.GVK.GroupKind() == kind })
	if i < 0 {
		return nil, fmt.Errorf("%w %s", statuspage.ErrUnknownKind, kind)
	}
	explanation, err := engines[i].Explain(ctx, key)
	if explanation != nil {
		for _, problem := range s.operator.kinds.Watches.Problems() {
			if problem.GVK == engines[i].GVK && problem.Reason == watchcheck.Undecodable {
				explanation.Waits = append(explanation.Waits, problem.Error())
			}
		}
	}
	if explanation != nil && s.operator.attempts != nil {
		explanation.Attempts = s.operator.attempts.Of(kind, key)
	}
	return explanation, err
}

// engines returns the running engines of the operator, or an error if the operator isn't running in this process.
func (s explainer) engines() ([]*engine.Engine, error) {
	select {
	case <-s.operator.mgr.Elected():
		if engines := s.operator.kinds.Engines.All(); len(engines) > 0 {
			return engines, nil
		}
	default:
	}
	return nil, statuspage.ErrNotRunning
}

// Kinds implements [statuspage.Source].
func (s explainer) Kinds() (kinds []statuspage.Kind, err error) {
	engines, err := s.engines()
	leftOut := s.operator.kinds.Watches.LeftOut()
	for _, e := range engines {
		kind := e.Status()
		for _, obj := range leftOut {
			if obj.GVK == e.GVK {
				kind.Objects = append(kind.Objects, statuspage.Object{Namespace: obj.Key.Namespace, Name: obj.Key.Name, Error: "the object does not decode: " + obj.Fault.Error()})
			}
		}
		slices.SortFunc(kind.Objects, func(a, b statuspage.Object) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
		kinds = append(kinds, kind)
	}
	return kinds, err
}
