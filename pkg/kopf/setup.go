package kopf

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// SetupWithManager creates an operator, checks its declaration and adds it to the manager. It also registers these endpoints:
//
//   - [Operator.Healthz] and [Operator.Readyz] as "kopf-<controllers>", with the controller names of all resources, separated by dashes
//     (see [WithName])
//   - [Operator.ServeProbes] under /kopf/probes on the metrics server, if there are probes
//   - [Operator.ServePeering] under /kopf/peering on the metrics server, with [WithPeering]
//
// Because of these paths, a manager can have only one operator with probes from SetupWithManager, and only one with peering. Use
// mgr.Add(kopf.New(...)) for the others. A manager that is already running doesn't accept health checks, so SetupWithManager logs this and
// adds the operator without them.
func SetupWithManager(mgr manager.Manager, opts ...Option) error {
	o := New(mgr, opts...)
	if err := o.CheckDeclaration(); err != nil {
		return err
	}
	if err := mgr.Add(o); err != nil {
		return err
	}
	if !o.functions.probes.IsEmpty() {
		if err := mgr.AddMetricsServerExtraHandler("/kopf/probes", o.ServeProbes()); err != nil {
			return err
		}
	}
	if o.peers != nil {
		if err := mgr.AddMetricsServerExtraHandler("/kopf/peering", o.ServePeering()); err != nil {
			return err
		}
	}
	name := healthCheckName(o.resources, mgr.GetScheme())
	if err := errors.Join(mgr.AddHealthzCheck(name, o.Healthz), mgr.AddReadyzCheck(name, o.Readyz)); err != nil {
		// A running manager accepts runnables, but no health checks.
		mgr.GetLogger().Info("Cannot add health checks to a running manager; the operator runs without them", "error", err.Error())
	}
	return nil
}

func healthCheckName(resources []resource, scheme *runtime.Scheme) string {
	names := []string{"kopf"}
	for _, r := range resources {
		names = append(names, r.controllerName(scheme))
	}
	return strings.Join(names, "-")
}
