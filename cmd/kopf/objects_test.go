package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var databaseKind = schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Database"}

const (
	kind     = "databases.demo.example.com"
	handled  = "{\"spec\":{\"engine\":\"postgres\",\"sizeGiB\":10}}\n"
	baseline = "kopf.zalando.org/last-handled-configuration"
)

var digestAnnotation = fmt.Sprint(progress.Digest(progress.AnnotationBaseline("")))

// tooLarge returns the annotations of an object with only a digest of the last-handled configuration.
func tooLarge(handled string) map[string]string {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	never := func(client.Object) bool { return false }
	if err := essence.WithDigestFallback(progress.AnnotationBaseline("")).SupersedeByDigest(obj, essence.Digest([]byte(handled)), nil, never); err != nil {
		panic(err)
	}
	return obj.GetAnnotations()
}

// The command rejects invalid flags before any request.
func TestObjects_InvalidFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for args, part := range map[string]string{
		"list":                      "requires at least 1 arg",
		"list x -A -n y":            "are mutually exclusive",
		"list x y -A":               "use --namespace",
		"list x y -l a=b":           "--selector and names are mutually exclusive",
		"list x -l a=b=c":           "--selector: ",
		"list x --field spec..a":    `--field is "spec..a"`,
		"list x --handler=":         "--handler is empty",
		"list x --prefix a/b":       "set the part before the slash",
		"release x --finalizer one": "set the full name",
		"release x -o xml":          "use table, json or yaml",
		"release x":                 "no access to a cluster",
		"release x --extras-only --keep-annotations": "none of the others can be",
		"release x --kubeconfig nowhere":             "no access to a cluster",
	} {
		if out, err := kopf(t, append([]string{"objects"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %v, want %s; output:\n%s", args, err, part, out)
		}
	}
}

func TestDefaultFinalizer_IsTheDefaultOfTheLibrary(t *testing.T) {
	if defaultFinalizer != framework.DefaultFinalizer {
		t.Errorf("got %s, want %s", defaultFinalizer, framework.DefaultFinalizer)
	}
}

func TestObjects_ListAndRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cp, err := controlplane.Start(controlplane.Options{CRDPaths: []string{"../../examples/01-minimal/config/crd"}})
	must(t, err)
	t.Cleanup(func() { _ = cp.Stop() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, cp.WriteKubeconfig(kubeconfig))
	t.Setenv("KUBECONFIG", kubeconfig)
	k8s, err := client.New(cp.Config, client.Options{})
	must(t, err)

	t.Run("invalid arguments", func(t *testing.T) {
		fails(t, `the API server has no kind "tables"`, "objects", "list", "tables")
		fails(t, "have no namespace: remove --namespace", "objects", "list", "namespaces", "-n", "x")
		fails(t, `"none" not found`, "objects", "release", kind, "none")
	})
	t.Run("check", func(t *testing.T) { testCheck(t, k8s) })
	t.Run("list", func(t *testing.T) { testList(t, k8s, cp.Config) })
	t.Run("release", func(t *testing.T) { testRelease(t, k8s) })
	t.Run("release during concurrent changes", func(t *testing.T) { testConcurrentChanges(t, cp.Config) })
	t.Run("release of a replaced object", func(t *testing.T) { testReplacedObject(t, cp.Config) })
	t.Run("pages", func(t *testing.T) { testPages(t, k8s) })
	t.Run("custom finalizer and prefix", func(t *testing.T) { testCustomStorage(t, k8s) })
}

// unfinishedObjects returns objects with unfinished work of an operator in Python (MIG-01, MIG-05).
func unfinishedObjects(now time.Time) []*unstructured.Unstructured {
	stamp := func(d time.Duration) string { return now.Add(d).UTC().Format("2006-01-02T15:04:05.000000-07:00") }
	done := fmt.Sprintf(`{"started":%q,"stopped":%q,"purpose":"create","retries":1,"success":true,"failure":false}`, stamp(-time.Minute), stamp(-time.Minute))
	due := fmt.Sprintf(`{"started":%q,"delayed":%q,"purpose":"create","retries":3,"success":false,"failure":false,"message":"no\nanswer"}`, stamp(-time.Minute), stamp(-time.Second))
	later := fmt.Sprintf(`{"started":%q,"delayed":%q,"purpose":"update","retries":1,"success":false,"failure":false}`, stamp(-time.Minute), stamp(time.Hour))
	edited := sample("edited", map[string]string{baseline: handled})
	edited.Object["spec"].(map[string]any)["sizeGiB"] = int64(20)
	waiting := sample("waiting", map[string]string{baseline: handled, "kopf.zalando.org/change": later})
	waiting.Object["spec"].(map[string]any)["sizeGiB"] = int64(20)
	return []*unstructured.Unstructured{
		sample("a-new", nil),
		sample("broken", map[string]string{baseline: "{", "kopf.zalando.org/provision": done}),
		sample("deleted", map[string]string{baseline: handled}),
		edited,
		sample("handled", map[string]string{baseline: handled, "example.com/kopf-managed": "yes", "example.com/other": "ignored"}),
		sample("large", tooLarge(strings.TrimSpace(handled))),
		sample("large-edited", tooLarge(`{"spec":{}}`)),
		sample("midway", map[string]string{"kopf.zalando.org/provision": done, "kopf.zalando.org/announce": due, "kopf.zalando.org/renamed": done}),
		waiting,
	}
}

func sample(name string, annotations map[string]string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"engine": "postgres", "sizeGiB": int64(10)}}}
	obj.SetGroupVersionKind(databaseKind)
	obj.SetNamespace("default")
	obj.SetName(name)
	obj.SetAnnotations(annotations)
	obj.SetFinalizers([]string{framework.DefaultFinalizer})
	return obj
}

// MIG-01: a later operator handles the causes that the command has printed.
func testList(t *testing.T, k8s client.Client, config *rest.Config) {
	for _, obj := range unfinishedObjects(time.Now()) {
		must(t, k8s.Create(t.Context(), obj))
	}
	must(t, k8s.Delete(t.Context(), sample("deleted", nil)))

	list := []string{"objects", "list", kind, "-o", "json"}
	for _, id := range []string{"provision", "announce", "change", "drop"} {
		list = append(list, "--handler", id)
	}
	var findings []finding
	must(t, json.Unmarshal([]byte(mustRun(t, list...)), &findings))
	got := map[string]string{}
	for _, f := range findings {
		var parts []string
		for _, h := range f.Handlers {
			parts = append(parts, fmt.Sprint(h.ID, " ", h.State, " ", h.Attempts))
		}
		got[f.Name] = fmt.Sprintf("%s%v%v%v%d", f.Cause, f.Changed, parts, f.Unknown, len(f.Problems))
	}
	want := map[string]string{
		"a-new":        "create[][][]0",
		"broken":       "create[][provision succeeded 1][]1",
		"deleted":      "delete[][][]0",
		"edited":       "update[spec.sizeGiB][][]0",
		"handled":      "none[][][]0",
		"large":        "none[][][]1",
		"large-edited": "unknown[][][]1",
		"midway":       "create[][provision succeeded 1 announce due 3][kopf.zalando.org/renamed]0",
		"waiting":      "update[spec.sizeGiB][change waiting 1][]0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("findings (-want +got):\n", diff)
	}
	// The table has a summary line.
	table := mustRun(t, "objects", "list", kind)
	for _, part := range []string{
		"announce: due (create, attempts 3) no answer", "renamed: succeeded", "change: waiting, due in ",
		"9 objects; causes: 3 create, 2 update, 1 delete, 2 none, 1 unknown; 2 objects with unfinished handlers, 0 with records of unknown handlers",
	} {
		if !strings.Contains(table, part) {
			t.Errorf("the table does not contain %q:\n%s", part, table)
		}
	}
	// MIG-02: the command selects one object by its name and compares a status field.
	one := mustRun(t, "objects", "list", "database", "handled", "-o", "yaml", "--field", "status.phase")
	if !strings.Contains(one, "cause: none") || strings.Contains(one, "midway") {
		t.Errorf("got\n%s\nwant only the object handled, without a cause", one)
	}

	// An operator with these handlers calls the printed handlers.
	calls := watchCalls(t, config, k8s)
	if diff := cmp.Diff(map[string][]string{
		"a-new":        {"provision", "announce"},
		"broken":       {"announce"},
		"deleted":      {"drop"},
		"edited":       {"change"},
		"large-edited": {"change"},
		"midway":       {"announce"},
	}, calls); diff != "" {
		t.Error("calls of handlers (-want +got):\n", diff)
	}
	for _, name := range []string{"a-new", "broken", "edited", "handled", "large", "large-edited", "midway", "waiting"} {
		obj := sample(name, nil)
		must(t, k8s.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		must(t, k8s.Delete(t.Context(), obj))
	}
}

// watchCalls runs an operator until it has handled all objects except for one that waits for an hour.
func watchCalls(t *testing.T, config *rest.Config, k8s client.Client) map[string][]string {
	t.Helper()
	var mu sync.Mutex
	calls := map[string][]string{}
	handler := func(id string) framework.Handler[*unstructured.Unstructured] {
		return func(_ context.Context, req *framework.Request[*unstructured.Unstructured]) error {
			mu.Lock()
			defer mu.Unlock()
			calls[req.Object.GetName()] = append(calls[req.Object.GetName()], id)
			return nil
		}
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	must(t, err)
	must(t, framework.SetupWithManager(mgr, framework.For(framework.Unstructured(databaseKind)).
		OnCreate("provision", handler("provision")).
		OnCreate("announce", handler("announce")).
		OnUpdate("change", handler("change")).
		OnDelete("drop", handler("drop"))))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	eventually(t, func() bool {
		var findings []finding
		must(t, json.Unmarshal([]byte(mustRun(t, "objects", "list", kind, "-o", "json")), &findings))
		for _, f := range findings {
			if f.Name != "waiting" && (f.Cause != "none" || len(f.Handlers) > 0) {
				return false
			}
		}
		return len(findings) == 8
	})
	stop()
	must(t, <-ended)
	mu.Lock()
	defer mu.Unlock()
	return maps.Clone(calls)
}

func testRelease(t *testing.T, k8s client.Client) {
	both := sample("both", map[string]string{
		baseline: handled, "kopf.zalando.org/provision": `{"success":true,"failure":false}`, "kopf.zalando.org/touch-dummy": "now",
		"kopf.zalando.org/pinned-configuration": "{}", "runtime.kopf.zalando.org/pinned-configuration": "{}", "example.com/mine": "stays",
		digestAnnotation: "{}",
	})
	both.SetFinalizers([]string{"example.com/other", framework.DefaultFinalizer})
	must(t, k8s.Create(t.Context(), both))
	must(t, k8s.Create(t.Context(), sample("deleting", nil)))
	must(t, k8s.Delete(t.Context(), sample("deleting", nil)))
	unrelated := sample("unrelated", map[string]string{"example.com/mine": "stays"})
	unrelated.SetFinalizers(nil)
	must(t, k8s.Create(t.Context(), unrelated))

	// Without --yes, the command writes nothing.
	before := read(t, k8s, "both").GetResourceVersion()
	out := mustRun(t, "objects", "release", kind)
	for _, part := range []string{"Nothing was written. Use --yes to apply the changes.", "is deleted", "2 objects"} {
		if !strings.Contains(out, part) {
			t.Errorf("the output does not contain %q:\n%s", part, out)
		}
	}
	if after := read(t, k8s, "both").GetResourceVersion(); after != before {
		t.Errorf("resourceVersion after release without --yes = %s, want %s", after, before)
	}

	// --extras-only selects only the annotations that kopf in Python does not use.
	for _, yes := range []bool{false, true} {
		args := []string{"objects", "release", kind, "-o", "json", "--extras-only"}
		if yes {
			args = append(args, "--yes")
		}
		var changes []change
		must(t, json.NewDecoder(strings.NewReader(mustRun(t, args...))).Decode(&changes)) // the command also prints a hint
		want := []change{{Namespace: "default", Name: "both", Written: yes, Annotations: []string{
			digestAnnotation, "kopf.zalando.org/pinned-configuration", "runtime.kopf.zalando.org/pinned-configuration",
		}}}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	}
	if obj := read(t, k8s, "both"); len(obj.GetFinalizers()) != 2 || len(obj.GetAnnotations()) != 4 {
		t.Errorf("got finalizers %v and annotations %v, want two and four", obj.GetFinalizers(), obj.GetAnnotations())
	}

	// --keep-annotations removes only the finalizer.
	mustRun(t, "objects", "release", kind, "both", "--keep-annotations", "--yes")
	if obj := read(t, k8s, "both"); !slices.Equal(obj.GetFinalizers(), []string{"example.com/other"}) || len(obj.GetAnnotations()) != 4 {
		t.Errorf("got finalizers %v and annotations %v, want example.com/other and four annotations", obj.GetFinalizers(), obj.GetAnnotations())
	}
	// With -A, the command releases the objects in all namespaces.
	var changes []change
	must(t, json.Unmarshal([]byte(mustRun(t, "objects", "release", kind, "-A", "--yes", "-o", "json")), &changes))
	if len(changes) != 2 || !changes[0].Written || !changes[1].Written || changes[0].Finalizer || !changes[1].Deletes {
		t.Errorf("got changes %+v, want two written changes, of which the second deletes its object", changes)
	}
	if diff := cmp.Diff(map[string]string{"example.com/mine": "stays"}, read(t, k8s, "both").GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(sample("deleting", nil)), sample("deleting", nil)); !apierrors.IsNotFound(err) {
		t.Errorf("reading the released object returned %v, want not found", err)
	}
	// A second run changes nothing.
	if out := mustRun(t, "objects", "release", kind, "-A", "--yes"); !strings.Contains(out, "0 objects") {
		t.Errorf("got output %s, want 0 objects", out)
	}
	must(t, k8s.Patch(t.Context(), both, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	must(t, k8s.Delete(t.Context(), both))
	must(t, k8s.Delete(t.Context(), unrelated))
}

// The command keeps finalizers that other controllers add concurrently, and skips objects that other clients release concurrently.
func testConcurrentChanges(t *testing.T, config *rest.Config) {
	direct, err := client.NewWithWatch(config, client.Options{})
	must(t, err)
	for name, theirs := range map[string]string{
		"contested": `{"metadata":{"finalizers":["example.com/other","` + framework.DefaultFinalizer + `"]}}`,
		"released":  `{"metadata":{"finalizers":null,"annotations":null}}`,
	} {
		obj := sample(name, map[string]string{baseline: handled})
		must(t, direct.Create(t.Context(), obj))
		changed := false
		c := interceptor.NewClient(direct, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if !changed {
					changed = true
					must(t, c.Patch(ctx, sample(name, nil), client.RawPatch("application/merge-patch+json", []byte(theirs))))
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		})
		r := release{storage: storage{finalizer: defaultFinalizer, prefix: "kopf.zalando.org"}, yes: true}
		done, err := r.object(t.Context(), c, obj.DeepCopy())
		must(t, err)
		left := read(t, direct, name)
		if (done != nil) != (name == "contested") || slices.Contains(left.GetFinalizers(), framework.DefaultFinalizer) || len(left.GetAnnotations()) != 0 {
			t.Errorf("release of %s: got change %+v and object %v", name, done, left)
		}
		if name == "contested" && !slices.Equal(left.GetFinalizers(), []string{"example.com/other"}) {
			t.Errorf("got finalizers %v, want example.com/other", left.GetFinalizers())
		}
		must(t, direct.Patch(t.Context(), sample(name, nil), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		must(t, direct.Delete(t.Context(), sample(name, nil)))
	}
}

// The command does not change an object that has replaced a selected object of the same name.
func testReplacedObject(t *testing.T, config *rest.Config) {
	direct, err := client.NewWithWatch(config, client.Options{})
	must(t, err)
	obj := sample("twice", map[string]string{baseline: handled})
	must(t, direct.Create(t.Context(), obj))
	replaced := false
	c := interceptor.NewClient(direct, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if !replaced {
				replaced = true
				must(t, c.Patch(ctx, sample("twice", nil), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
				must(t, c.Delete(ctx, sample("twice", nil)))
				must(t, c.Create(ctx, sample("twice", map[string]string{baseline: handled})))
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	r := release{storage: storage{finalizer: defaultFinalizer, prefix: "kopf.zalando.org"}, yes: true}
	done, err := r.object(t.Context(), c, obj.DeepCopy())
	must(t, err)
	left := read(t, direct, "twice")
	if done != nil || !slices.Contains(left.GetFinalizers(), framework.DefaultFinalizer) || len(left.GetAnnotations()) == 0 {
		t.Errorf("got change %+v and object %v, want no change", done, left)
	}
	must(t, direct.Patch(t.Context(), sample("twice", nil), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	must(t, direct.Delete(t.Context(), sample("twice", nil)))
}

// The command visits all pages, and continues after an error of one object.
func testPages(t *testing.T, k8s client.Client) {
	want := 5
	for n := range want {
		obj := sample(fmt.Sprint("page-", n), nil)
		obj.SetFinalizers(nil)
		must(t, k8s.Create(t.Context(), obj))
	}
	seen := 0
	run := runner{c: k8s, gvk: databaseKind, do: func(context.Context, client.Client, *unstructured.Unstructured) error {
		if seen++; seen == 2 {
			return errors.New("refused")
		}
		return nil
	}}
	if err := run.visitListed(t.Context(), &client.ListOptions{Limit: 2}); err == nil || err.Error() != "default/page-1: refused" || seen != want {
		t.Errorf("got %d objects and error %v, want %d objects and the error of one", seen, err, want)
	}
	for n := range want {
		must(t, k8s.Delete(t.Context(), sample(fmt.Sprint("page-", n), nil)))
	}
}

// The command keeps other annotations with the same prefix, and the state of an operator with kopf's prefix (KEY-20).
func testCustomStorage(t *testing.T, k8s client.Client) {
	obj := sample("own", map[string]string{
		baseline:                                           handled,
		"databases.example.com/kopf-managed":               "yes",
		"databases.example.com/provision":                  `{"retries":1,"success":true,"failure":false,"purpose":"create"}`,
		"databases.example.com/pinned-configuration":       "{}",
		"databases.example.com/last-handled-configuration": handled,
		"databases.example.com/owner":                      `{"team":"shop"}`,
	})
	obj.SetFinalizers([]string{"databases.example.com/finalizer", framework.DefaultFinalizer})
	must(t, k8s.Create(t.Context(), obj))
	storage := []string{"--finalizer", "databases.example.com/finalizer", "--prefix", "databases.example.com"}

	if out := mustRun(t, append([]string{"objects", "list", kind, "-o", "yaml"}, storage...)...); !strings.Contains(out, "cause: none") || !strings.Contains(out, "id: provision") {
		t.Errorf("got\n%s\nwant no cause and the handler provision", out)
	}
	mustRun(t, append([]string{"objects", "release", kind, "own", "--yes"}, storage...)...)
	left := read(t, k8s, "own")
	if diff := cmp.Diff(map[string]string{baseline: handled, "databases.example.com/owner": `{"team":"shop"}`}, left.GetAnnotations()); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if !slices.Equal(left.GetFinalizers(), []string{framework.DefaultFinalizer}) {
		t.Errorf("got finalizers %v, want %s", left.GetFinalizers(), framework.DefaultFinalizer)
	}
}

func read(t *testing.T, k8s client.Client, name string) *unstructured.Unstructured {
	t.Helper()
	obj := sample(name, nil)
	must(t, k8s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

func eventually(t *testing.T, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !happened() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			t.Fatal("the condition was not met within 30 seconds")
		}
	}
}

// The command reports the finalizer of another controller as a problem if the object is under deletion.
func TestObjects_FinalizersOfOtherControllers(t *testing.T) {
	obj := sample("orders", nil)
	i := inspector{storage: storage{finalizer: framework.DefaultFinalizer, prefix: progress.DefaultPrefix}}
	obj.SetFinalizers([]string{"shop.example.com/finalizer"})
	if problems := i.inspect(obj).Problems; len(problems) > 0 {
		t.Errorf("problems without deletion = %q, want none", problems)
	}
	obj.SetDeletionTimestamp(new(metav1.Now()))
	want := []string{"the object is under deletion, but has finalizers of other controllers: shop.example.com/finalizer"}
	if diff := cmp.Diff(want, i.inspect(obj).Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	obj.SetFinalizers([]string{framework.DefaultFinalizer})
	if problems := i.inspect(obj).Problems; len(problems) > 0 {
		t.Errorf("problems with the finalizer of the operator = %q, want none", problems)
	}
}

// Like the default store, the commands read records in status.kopf.progress. An annotation of the same handler takes precedence.
func TestInspect_RecordsInTheStatus(t *testing.T) {
	obj := sample("orders", map[string]string{"kopf.zalando.org/resize.spec.size": `{"retries":2,"success":false,"failure":false}`})
	obj.Object["status"] = map[string]any{"kopf": map[string]any{"progress": map[string]any{
		"provision":        map[string]any{"purpose": "create", "retries": int64(1), "success": false, "failure": true, "message": "no disk"},
		"resize/spec.size": map[string]any{"retries": int64(1), "success": false, "failure": false},
		"broken":           "text",
		"purged":           nil,
	}}}
	byDefault := storage{prefix: progress.DefaultPrefix}
	for name, test := range map[string]struct {
		look              inspector
		handlers, unknown []string
		problems          int
	}{
		"without ids": {inspector{storage: byDefault}, []string{"resize.spec.size due 2", "provision failed 1"}, nil, 1},
		"with an id in both places": {
			inspector{storage: byDefault, handlers: []string{"resize/spec.size"}},
			[]string{"resize/spec.size due 2"}, []string{"status.kopf.progress.broken", "status.kopf.progress.provision"}, 0,
		},
		"with an id in the status": {
			inspector{storage: byDefault, handlers: []string{"provision"}},
			[]string{"provision failed 1"}, []string{"kopf.zalando.org/resize.spec.size", "status.kopf.progress.broken"}, 0,
		},
		"with another prefix": {inspector{storage: storage{prefix: "example.com"}}, nil, nil, 0},
	} {
		found := test.look.inspect(obj)
		var handlers []string
		for _, h := range found.Handlers {
			handlers = append(handlers, fmt.Sprintf("%s %s %d", h.ID, h.State, h.Attempts))
		}
		if !slices.Equal(handlers, test.handlers) || !slices.Equal(found.Unknown, test.unknown) || len(found.Problems) != test.problems {
			t.Errorf("%s: handlers %q, unknown %q, problems %q; want %q, %q, %d problems", name, handlers, found.Unknown, found.Problems, test.handlers, test.unknown, test.problems)
		}
	}
}
