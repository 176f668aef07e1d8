package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/preview"
)

// happened is what an operator has done with one object, or would do.
type happened struct {
	mu       sync.Mutex
	Cause    string
	Handlers []string
	Starts   []string
}

func (h *happened) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.Handlers)
	slices.Sort(h.Starts)
	return fmt.Sprintf("%s %q, starts %q", h.Cause, slices.Compact(h.Handlers), slices.Compact(h.Starts))
}

// recorded are handlers that note their calls.
type recorded struct{ happened }

func (r *recorded) handler(id string, err error) kopf.Handler[configMap] {
	return func(_ context.Context, req *kopf.Request[configMap]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.Cause, r.Handlers = string(req.Reason), append(r.Handlers, id)
		return err
	}
}

func (r *recorded) runs(id string) func(context.Context, *kopf.Request[configMap]) error {
	return func(ctx context.Context, _ *kopf.Request[configMap]) error {
		r.mu.Lock()
		r.Starts = append(r.Starts, id)
		r.mu.Unlock()
		<-ctx.Done()
		return nil
	}
}

func maps1() *kopf.Resource[configMap] { return kopf.For(&corev1.ConfigMap{}) }

var errLater = kopf.Temporary(errors.New("busy"), time.Hour)

// previewed are the versions of an operator.
var previewed = map[string]func(*recorded) kopf.Option{
	"create and update": func(r *recorded) kopf.Option {
		return maps1().OnCreate("create", r.handler("create", nil)).OnUpdate("update", r.handler("update", nil))
	},
	"waiting": func(r *recorded) kopf.Option {
		return maps1().OnCreateOrUpdate("create", r.handler("create", errLater)).OnUpdate("update", r.handler("update", nil))
	},
	"delete": func(r *recorded) kopf.Option {
		return maps1().OnCreate("create", r.handler("create", nil)).OnDelete("delete", r.handler("delete", nil))
	},
	"background": func(r *recorded) kopf.Option {
		return maps1().OnUpdate("update", r.handler("update", nil)).Daemon("daemon", daemons.Daemon{}, r.runs("daemon")).
			Timer("timer", daemons.Timer{Interval: time.Hour}, r.runs("timer"), kopf.Label("team"))
	},
	"resume": func(r *recorded) kopf.Option {
		return maps1().On("connect", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, r.handler("connect", nil)).OnUpdate("update", r.handler("update", nil))
	},
	"filters": func(r *recorded) kopf.Option {
		return maps1().OnCreateOrUpdate("team", r.handler("team", nil), kopf.Label("team", filter.Equal("a"))).
			OnDelete("drop", r.handler("drop", nil), kopf.Label("team"))
	},
	"fields": func(r *recorded) kopf.Option {
		return maps1().OnField("field", "data.a", r.handler("field/data.a", nil)).
			OnUpdate("label", r.handler("label/metadata.labels.team", nil), kopf.Field("metadata.labels.team"))
	},
	"renamed": func(r *recorded) kopf.Option {
		return maps1().OnCreateOrUpdate("make", r.handler("make", nil), kopf.RenamedFrom("create"))
	},
	"revision 1": func(r *recorded) kopf.Option {
		return maps1().OnCreateOrUpdate("create", r.handler("create", nil), kopf.Revision(1))
	},
	"revision 2": func(r *recorded) kopf.Option {
		return maps1().OnCreateOrUpdate("create", r.handler("create", nil), kopf.Revision(2)).OnUpdate("update", r.handler("update", nil), kopf.Revision(1))
	},
	"index": func(r *recorded) kopf.Option {
		resource := maps1()
		byTeam := kopf.IndexBy(resource, "by-team", func(_ context.Context, req *kopf.Request[configMap]) (map[string]string, error) {
			return map[string]string{"team": req.Object.Name}, nil
		})
		resource.When(func(*kopf.Request[configMap]) bool { return len(byTeam.Get("team")) > 0 }).OnUpdate("first", r.handler("first", nil))
		resource.When(func(*kopf.Request[configMap]) bool { return len(byTeam.Get("team")) == 0 }).OnUpdate("none", r.handler("none", nil))
		return resource
	},
	"only events": func(*recorded) kopf.Option {
		return maps1().OnEvent("event", func(context.Context, *kopf.Request[configMap]) error { return nil })
	},
}

var previewedEdits = map[string]string{
	"nothing":    "",
	"data":       `{"data":{"a":"2"}}`,
	"label":      `{"metadata":{"labels":{"team":"a"}}}`,
	"annotation": `{"metadata":{"annotations":{"note":"x"}}}`,
	"pause":      `{"data":{"a":"2"},"metadata":{"annotations":{"kopf-runtime.dev/paused":"true"}}}`,
	"deletion":   "delete",
}

// What a preview says of an object is what the new version then does in its first cycle, for each pair of versions and each edit in between.
func TestPreview_IsWhatHappens(t *testing.T) {
	pairs := 0
	versions := slices.Sorted(maps.Keys(previewed))
	for _, before := range append([]string{"nothing"}, versions...) {
		for _, after := range versions {
			for _, edit := range slices.Sorted(maps.Keys(previewedEdits)) {
				pairs++
				t.Run(before+" → "+edit+" → "+after, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { comparePreview(t, before, edit, after) })
				})
			}
		}
	}
	t.Logf("%d pairs", pairs)
}

func previewCluster(t *testing.T) *kopftest.Cluster {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return kopftest.Memory(t, kopftest.Types(scheme))
}

func comparePreview(t *testing.T, before, edit, after string) {
	t.Helper()
	c := previewCluster(t)
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Data: map[string]string{"a": "1"}}
	c.Create(t, obj)
	if declare := previewed[before]; declare != nil {
		stop := runShard(t, c, declare(&recorded{}))
		<-time.After(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	switch patch := previewedEdits[edit]; patch {
	case "":
	case "delete":
		err = c.Client.Delete(t.Context(), obj.DeepCopy())
	default:
		err = c.Client.Patch(t.Context(), obj.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch)))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		return // deleted without a finalizer
	}
	version, finalizers := obj.ResourceVersion, len(obj.Finalizers)

	said := &recorded{}
	report, err := kopf.New(newShardManager(t, c), previewed[after](said)).Preview(t.Context())
	if err != nil || len(report.Kinds) != 1 || report.Problems() > 0 || report.Kinds[0].Objects != 1 || len(report.Kinds[0].Groups) != 1 {
		t.Fatalf("Preview = %+v, %v; want one group", report, err)
	}
	group := report.Kinds[0].Groups[0]
	if c.Get(t, obj); obj.ResourceVersion != version || said.Cause != "" || len(said.Starts) > 0 {
		t.Errorf("the preview has written the object or called %s", said)
	}

	done := &recorded{}
	stop := runShard(t, c, previewed[after](done))
	<-time.After(10 * time.Second)
	now := 0
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err == nil {
		now = len(obj.Finalizers)
	} else if group.Cause != "delete" && group.Finalizer != "remove" {
		t.Errorf("the object is gone, and the preview says %+v", group)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	want := &happened{Cause: group.Cause, Handlers: slices.Clone(group.Handlers), Starts: slices.Clone(group.Starts)}
	if group.Paused {
		want = &happened{}
	}
	// Handlers that wait for their delay are part of the cycle, but are not called yet.
	if waiting := []string{"create", "make"}; len(done.Handlers) == 0 && before == "waiting" && len(want.Handlers) == 1 && slices.Contains(waiting, want.Handlers[0]) {
		done.Handlers, done.Cause = want.Handlers, want.Cause
	}
	if len(want.Handlers) == 0 {
		want.Cause = ""
	}
	if want.String() != done.String() {
		t.Errorf("the preview says %s (%+v), and the operator has done %s", want, group, &done.happened)
	}
	wantNow := finalizers + map[string]int{"add": 1, "remove": -1}[group.Finalizer]
	if group.Cause == "delete" {
		wantNow = 0 // the delete handlers succeed
	}
	if now != wantNow && !group.Paused {
		t.Errorf("the preview says %+v; the object had %d finalizers and has %d", group, finalizers, now)
	}
}

func TestPreview_Report(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := previewCluster(t)
		for i := range 1200 {
			c.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("o-%04d", i), Labels: map[string]string{"team": string(rune('a' + i%2))}}})
		}
		operator := kopf.New(newShardManager(t, c), maps1().When(func(req *kopf.Request[configMap]) bool {
			if req.Object.Name == "o-0007" {
				panic("seven")
			}
			return req.Object.Labels["team"] == "a"
		}).OnCreate("create", func(context.Context, *kopf.Request[configMap]) error { return nil }))
		report, err := operator.Preview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Changes(); n != 600 {
			t.Errorf("%d changes, want 600", n)
		}
		var out strings.Builder
		if err := report.WriteText(&out); err != nil {
			t.Error(err)
		}
		for _, line := range []string{
			"KIND        OBJECTS   CAUSE    HANDLERS   WHY   EXAMPLES",
			"ConfigMap   600       create   create     -     default/o-0000, default/o-0002, default/o-0004",
			"ConfigMap   600       none     -          -     default/o-0001, default/o-0003, default/o-0005",
		} {
			if !strings.Contains(out.String(), line) {
				t.Errorf("the report is\n%s\nwant the line %s", out.String(), line)
			}
		}
	})
	if _, err := kopf.New(newManager(), maps1()).Preview(t.Context()); err == nil || !strings.Contains(err.Error(), "no handlers") {
		t.Errorf("without handlers: %v", err)
	}
	if text := (&preview.Report{}).Changes(); text != 0 {
		t.Errorf("an empty report has %d changes", text)
	}
}

// Only the objects that the operator would watch count. What cannot be read is a problem or a note, and the rest goes on.
func TestPreview_Scope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := previewCluster(t)
		for _, namespace := range []string{"a", "b", "c"} {
			for _, team := range []string{"x", "y"} {
				c.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: team, Labels: map[string]string{"team": team}}})
			}
		}
		noop := func(context.Context, *kopf.Request[configMap]) error { return nil }
		for name, test := range map[string]struct {
			options []kopf.Option
			objects int
			note    string
		}{
			"all":             {[]kopf.Option{maps1().OnCreate("create", noop)}, 6, ""},
			"namespaces":      {[]kopf.Option{maps1().OnCreate("create", noop), kopf.WithNamespaces("a", "b")}, 4, ""},
			"a pattern":       {[]kopf.Option{maps1().OnCreate("create", noop), kopf.WithNamespaces("a*")}, 6, "The namespaces could not be listed"},
			"a selector":      {[]kopf.Option{maps1().OnCreate("create", noop), kopf.WithWatchSelector("team=x")}, 3, ""},
			"one kind's":      {[]kopf.Option{kopf.For(&corev1.ConfigMap{}, kopf.WatchOnly(client.MatchingLabels{"team": "y"})).OnCreate("create", noop)}, 3, ""},
			"kinds by a name": {[]kopf.Option{maps1().OnCreate("create", noop), kopf.ForKinds(kopf.Kinds("things"), func(metav1.APIResource) kopf.Option { return nil })}, 6, "Kinds of ForKinds are not included."},
		} {
			report, err := kopf.New(newShardManager(t, c), test.options...).Preview(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if n := report.Changes(); n != test.objects || report.Kinds[0].Objects != test.objects {
				t.Errorf("%s: %d changes of %d objects, want %d", name, n, report.Kinds[0].Objects, test.objects)
			}
			if notes := strings.Join(report.Notes, "; "); !strings.Contains(notes, test.note) || test.note == "" && notes != "" {
				t.Errorf("%s: notes %q, want %q", name, notes, test.note)
			}
		}
		config := rest.CopyConfig(c.Config)
		config.Transport, config.WrapTransport = downTransport{}, nil
		mgr, err := manager.New(config, manager.Options{Scheme: c.Scheme, Metrics: server.Options{BindAddress: "0"}, MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return newShardManager(t, c).GetRESTMapper(), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		report, err := kopf.New(mgr, maps1().OnCreate("create", noop)).Preview(t.Context())
		if err != nil || report.Problems() != 1 || !strings.Contains(report.Kinds[0].Problems[0], "the API server is down") {
			t.Errorf("without an API server: %+v, %v", report, err)
		}
	})
}

// Objects that have all changed in another way end up in one group, but each with its own handlers.
func TestPreview_ManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := previewCluster(t)
		for i := range 1010 {
			c.Create(t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("o-%04d", i), Annotations: map[string]string{"kopf.zalando.org/last-handled-configuration": `{"data":{"before":"1"}}`}},
				Data:       map[string]string{fmt.Sprintf("key-%d", i): "value", "even": fmt.Sprint(i%2 == 0)},
			})
		}
		does := func(context.Context, *kopf.Request[configMap]) error { return nil }
		report, err := kopf.New(newShardManager(t, c), maps1().
			OnUpdate("update", does).
			OnUpdate("even", does, kopf.Field("data.even", filter.Equal("true")))).Preview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		groups := report.Kinds[0].Groups
		if len(groups) != 1002 || report.Changes() != 1010 {
			t.Fatalf("%d groups with %d changes, want 1002 with 1010", len(groups), report.Changes())
		}
		for i, handlers := range []string{"[update even/data.even]", "[update]"} {
			if last := groups[1000+i]; last.Objects != 5 || fmt.Sprint(last.Changed, last.Handlers) != "[…] "+handlers {
				t.Errorf("group %+v, want 5 objects with %s", last, handlers)
			}
		}
	})
}

type downTransport struct{}

func (downTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("the API server is down")
}
