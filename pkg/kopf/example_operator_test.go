package kopf_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func ExampleOperator() {
	operator := kopf.New(mgr, kopf.For(&Database{}).OnCreate("provision", provision))

	// These calls replace SetupWithManager, with custom names and paths.
	_ = mgr.Add(operator)
	_ = mgr.AddHealthzCheck("databases", operator.Healthz)
	_ = mgr.AddReadyzCheck("databases", operator.Readyz)
	_ = mgr.AddMetricsServerExtraHandler("/databases", operator.ServeProbes())
}

// SetupDatabases adds the operator for databases to a manager.
func SetupDatabases(mgr ctrl.Manager) error {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision).
		OnDelete("drop", drop)

	return kopf.SetupWithManager(mgr, databases)
}

func Example_kubebuilder() {
	if err := SetupDatabases(mgr); err != nil {
		panic(err) // func main logs the error and exits
	}
}

func ExampleOperator_ServePeering() {
	operator := kopf.New(mgr, kopf.For(&Database{}).OnCreate("provision", provision), kopf.WithPeering(peering.Options{Priority: 100}))

	// These calls replace SetupWithManager, with custom names and paths.
	_ = mgr.Add(operator)
	_ = mgr.AddReadyzCheck("databases", operator.Readyz)
	_ = mgr.AddMetricsServerExtraHandler("/databases/peering", operator.ServePeering())
}

func ExampleNewCache() {
	// One stored object that does not fit the Go type does not block the others.
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache})
	if err != nil {
		panic(err)
	}
	_ = kopf.SetupWithManager(mgr, kopf.For(&Database{}).OnCreate("provision", provision))
}

func ExampleOperator_CheckObjects() {
	// In a command of the new binary, before it is deployed.
	operator := kopf.New(mgr, kopf.For(&Database{}).OnCreate("provision", provision))
	err := operator.CheckObjects(context.Background()) // reads from the API server; the manager need not run
	if err != nil {
		fmt.Println(err) // Database shop/orders: spec.size: json: cannot unmarshal number 1.5 into ...
	}
}

func ExampleOperator_Preview() {
	// In a command of the new binary, before it is deployed.
	databases := kopf.For(&Database{}).OnCreateOrUpdate("provision", provision).OnDelete("drop", drop)
	report, err := kopf.New(mgr, databases).Preview(context.Background()) // the manager need not run
	if err == nil {
		err = report.WriteText(os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
	}
}

func ExampleOperator_CheckDeclaration() {
	mgr, err := ctrl.NewManager(&rest.Config{}, ctrl.Options{})
	if err != nil {
		panic(err)
	}
	configMaps := kopf.For(&corev1.ConfigMap{}).
		OnCreate("copy", nil, kopf.Retries(-1)).
		OnUpdate("copy", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }, kopf.Optional())

	// CheckDeclaration returns all errors, each with advice.
	fmt.Println(kopf.New(mgr, configMaps, kopf.WithFinalizer("my own")).CheckDeclaration())
	// Output:
	// the operator cannot start:
	// WithFinalizer("my own"): the name is not valid: it contains ' ': use letters, digits, '-', '_' and '.'; use the form "domain/name", such as "example.com/finalizer"
	// ConfigMap: OnCreate("copy"): the handler is nil: pass a function
	// ConfigMap: OnCreate("copy"): Retries must not be negative, got -1: leave it out for no limit
	// ConfigMap: OnUpdate("copy"): Optional is only for delete handlers: remove it
	// ConfigMap: OnUpdate("copy"): the id "copy" is used twice: rename one of the handlers, or use On for one function with several reasons
}

func ExampleOperator_Healthz() {
	operator := kopf.New(mgr, kopf.For(&Database{}).OnCreate("provision", provision),
		kopf.WithStuckAfter(time.Hour)) // provisioning can take half an hour

	http.HandleFunc("/alive", func(w http.ResponseWriter, req *http.Request) {
		if err := operator.Healthz(req); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

func ExampleWithStuckAfter() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision, kopf.AttemptTimeout(30*time.Minute))

	_ = kopf.SetupWithManager(mgr, databases, kopf.WithStuckAfter(time.Hour))
}

func ExampleWithWatchCheck() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	// One request every five minutes is enough for a kind with few events. 0 disables the check.
	_ = kopf.SetupWithManager(mgr, databases, kopf.WithWatchCheck(5*time.Minute))
}

func ExampleWithFinalizer() {
	databases := kopf.For(&Database{}).OnDelete("drop", drop)

	// The finalizer and all annotations of this operator have a prefix of their own.
	_ = mgr.Add(kopf.New(mgr, databases,
		kopf.WithFinalizer("databases.example.com/finalizer"),
		kopf.WithProgress(progress.Annotations("state.databases.example.com")),
		kopf.WithBaseline(progress.AnnotationBaseline("state.databases.example.com"))))
}

func ExampleWithProgress() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	// The records are stored in the status instead of annotations. The schema of the kind must have the field.
	_ = mgr.Add(kopf.New(mgr, databases, kopf.WithProgress(progress.Status("status.progress"))))
}

func ExampleWithRemote() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	// The progress of each Database is in a Secret in its namespace. The Database has only the finalizer.
	side := &progress.SideObjects{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Secrets: true}
	_ = mgr.Add(kopf.New(mgr, databases, kopf.WithRemote(side)))
}

func ExampleStoreIn() {
	_ = kopf.For(&Database{}).
		OnCreate("provision", provision).
		OnUpdate("announce", announce, kopf.StoreIn(progress.InMemory())) // no progress on the object; a restart may repeat the handler
}

func ExampleWithProgress_history() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	// Each Database keeps its last ten finished handlers. progress.History reads them.
	_ = mgr.Add(kopf.New(mgr, databases, kopf.WithProgress(progress.WithHistory(progress.Smart(), 10))))
}

func ExampleWithBaseline() {
	databases := kopf.For(&Database{}).OnUpdate("announce", announce)

	// An autoscaler changes this field often. The changes are not updates.
	_ = mgr.Add(kopf.New(mgr, databases,
		kopf.WithBaseline(progress.IgnoringFields(progress.AnnotationBaseline(""), "spec.size"))))
}

func ExampleWithLifecycle() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision).OnCreate("announce", announce)

	_ = mgr.Add(kopf.New(mgr, databases, kopf.WithLifecycle(progress.OneByOne)))
}

func ExampleWithCheckpoint() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision).OnCreate("announce", announce)

	_ = mgr.Add(kopf.New(mgr, databases, kopf.WithCheckpoint(0))) // the operator writes after every handler
}

func ExampleWithReconcilerWrapper() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	counted := func(inner reconcile.Reconciler) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			fmt.Println("reconciling", req.Name)
			return inner.Reconcile(ctx, req) // the result schedules the next reconcile
		})
	}
	_ = mgr.Add(kopf.New(mgr, databases, kopf.WithReconcilerWrapper(counted)))
}

func ExampleWithAttemptHook() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	timed := func(ctx context.Context, a kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
		start := time.Now()
		return ctx, func(outcome progress.Outcome) {
			fmt.Println(a.Handler, a.Object, a.Attempt.Number, time.Since(start), outcome.Err)
		}
	}
	_ = mgr.Add(kopf.New(mgr, databases, kopf.WithAttemptHook(timed)))
}

func ExampleReason() {
	converge := func(_ context.Context, req *DatabaseRequest) error {
		switch req.Reason {
		case kopf.ReasonCreate, kopf.ReasonResume:
			fmt.Println("ensuring that the database exists")
		default:
			fmt.Println("updating the database")
		}
		return nil
	}
	kopf.For(&Database{}).
		On("converge", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonResume}, converge)
}
