package essence_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// cleaners are those of an operator with default settings.
func cleaners() []essence.Cleaner {
	return []essence.Cleaner{progress.AnnotationBaseline(""), progress.Smart()}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// annotated is an object of annotations alone, given as key, value, key, value...
func annotated(annotations ...string) map[string]any {
	all := map[string]any{}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	return map[string]any{"metadata": map[string]any{"name": "w", "annotations": all}}
}

// without is what remains of annotated objects: the annotations.
func without(annotations ...string) map[string]any {
	content := annotated(annotations...)
	delete(content["metadata"].(map[string]any), "name")
	return content
}

func TestBuild(t *testing.T) {
	for _, test := range []struct {
		name          string
		content, want map[string]any
	}{
		{
			name: "ESS-01 all stanzas but four",
			content: map[string]any{
				"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"s": "x"},
				"spec": map[string]any{"a": int64(1)}, "data": map[string]any{"k": "v"}, "stringData": map[string]any{"k": "v"},
				"rules": []any{"r"}, "type": "Opaque", "immutable": true, "replicas": 1.5,
			},
			want: map[string]any{
				"spec": map[string]any{"a": int64(1)}, "data": map[string]any{"k": "v"}, "stringData": map[string]any{"k": "v"},
				"rules": []any{"r"}, "type": "Opaque", "immutable": true, "replicas": 1.5,
			},
		},
		{
			name:    "ESS-01 only at the top",
			content: map[string]any{"spec": map[string]any{"kind": "A", "status": "x", "metadata": map[string]any{"name": "a"}}},
			want:    map[string]any{"spec": map[string]any{"kind": "A", "status": "x", "metadata": map[string]any{"name": "a"}}},
		},
		{
			name: "ESS-02 of the metadata, labels and annotations",
			content: map[string]any{"metadata": map[string]any{
				"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "2", "generation": int64(3), "selfLink": "/",
				"creationTimestamp": "2020-12-31T23:59:59Z", "deletionTimestamp": "2020-12-31T23:59:59Z",
				"finalizers": []any{"f"}, "ownerReferences": []any{map[string]any{"kind": "B"}}, "managedFields": []any{map[string]any{}},
				"labels": map[string]any{"l": "v"}, "annotations": map[string]any{"a": "b"},
			}},
			want: map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "v"}, "annotations": map[string]any{"a": "b"}}},
		},
		{
			name:    "ESS-06 empty labels and annotations go, and metadata with them",
			content: map[string]any{"metadata": map[string]any{"labels": map[string]any{}, "annotations": map[string]any{}}, "spec": map[string]any{"a": "b"}},
			want:    map[string]any{"spec": map[string]any{"a": "b"}},
		},
		{
			name:    "ESS-06 empty labels alone",
			content: map[string]any{"metadata": map[string]any{"labels": map[string]any{}, "annotations": map[string]any{"a": "b"}}},
			want:    without("a", "b"),
		},
		{
			name:    "ESS-06 empty stanzas stay, empty fields, too",
			content: map[string]any{"spec": map[string]any{}, "data": nil, "rules": []any{}, "x": map[string]any{"e": map[string]any{}}},
			want:    map[string]any{"spec": map[string]any{}, "data": nil, "rules": []any{}, "x": map[string]any{"e": map[string]any{}}},
		},
		{
			name:    "ESS-06 nothing essential",
			content: map[string]any{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{}},
			want:    map[string]any{},
		},
		{name: "ESS-06 nothing at all", content: nil, want: map[string]any{}},
		{
			name:    "ESS-02 metadata of another shape",
			content: map[string]any{"metadata": "x", "spec": "y"},
			want:    map[string]any{"spec": "y"},
		},
		{
			name:    "ESS-02 labels of another shape",
			content: map[string]any{"metadata": map[string]any{"labels": "x", "annotations": []any{"y"}}},
			want:    map[string]any{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "essence", build(test.content, cleaners()...), test.want)
			equal(t, "essence without cleaners", build(test.content), test.want)
		})
	}
}

// Annotations of kopf-like operators are no part of an essence, whoever's they are.
func TestBuildDropsAnnotations(t *testing.T) {
	for _, test := range []struct {
		name          string
		content, want map[string]any
	}{
		{
			"ESS-03 that of kubectl",
			annotated("kubectl.kubernetes.io/last-applied-configuration", "{}", "kubectl.kubernetes.io/restartedAt", "now"),
			without("kubectl.kubernetes.io/restartedAt", "now"),
		},
		{
			"ESS-03 nothing else of Kubernetes",
			annotated("deployment.kubernetes.io/revision", "1"), without("deployment.kubernetes.io/revision", "1"),
		},
		{
			"KEY-22 DLY-10 the prefix of kopf",
			annotated("kopf.zalando.org/create_fn", "{}", "kopf.zalando.org/touch-dummy", "now", "kopf.zalando.org/last-handled-configuration", "{}", "a", "b"),
			without("a", "b"),
		},
		{"KEY-22 prefixes below it", annotated("op.kopf.zalando.org/x", "y", "a.b.kopf.zalando.org/x", "y", "a", "b"), without("a", "b")},
		{
			"KEY-22 B-34 prefixes with a marker",
			annotated("other-op.example.com/kopf-managed", "yes", "other-op.example.com/x", "y", "other-op.example.com/z", "y", "a", "b"),
			without("a", "b"),
		},
		{"KEY-22 a marker of any value", annotated("op.example.com/kopf-managed", "", "op.example.com/x", "y", "a", "b"), without("a", "b")},
		{
			"KEY-22 the marker counts for its own prefix alone",
			annotated("op.example.com/kopf-managed", "yes", "example.com/x", "y", "x.op.example.com/x", "y", "op.example.community/x", "y"),
			without("example.com/x", "y", "x.op.example.com/x", "y", "op.example.community/x", "y"),
		},
		{
			"KEY-23 prefixes that only mention kopf",
			annotated("kopf.dev/x", "y", "kopf-domain.tld/x", "y", "domain.kopf.tld/x", "y", "xkopf.zalando.org/x", "y", "kopf.zalando.org.tld/x", "y"),
			without("kopf.dev/x", "y", "kopf-domain.tld/x", "y", "domain.kopf.tld/x", "y", "xkopf.zalando.org/x", "y", "kopf.zalando.org.tld/x", "y"),
		},
		{"KEY-23 such a prefix with a marker", annotated("kopf.dev/kopf-managed", "yes", "kopf.dev/x", "y", "a", "b"), without("a", "b")},
		{
			"KEY-22 names without a prefix",
			annotated("kopf-managed", "yes", "kopf.zalando.org", "x", "a", "b"), without("kopf-managed", "yes", "kopf.zalando.org", "x", "a", "b"),
		},
		{"ESS-06 all of them", annotated("kopf.zalando.org/x", "y"), map[string]any{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "essence", build(test.content, cleaners()...), test.want)
			equal(t, "essence without cleaners", build(test.content), test.want)
		})
	}
}

func TestBuildIsCleanedByTheStores(t *testing.T) {
	const prefix = "op.example.com" // without its marker, for somebody has removed it
	content := annotated(prefix+"/fn", "{}", prefix+"/last-handled-configuration", "{}", prefix+"/last-handled-configuration-ofDRS", "{}", "a", "b")
	equal(t, "ESS-07 the baseline's own keys", build(content, progress.AnnotationBaseline(prefix)), without(prefix+"/fn", "{}", "a", "b"))
	equal(t, "ESS-08 all under the prefix of the progress", build(content, progress.Annotations(prefix)), without("a", "b"))
	equal(t, "ESS-07 ESS-08 both", build(content, progress.AnnotationBaseline(prefix), progress.Annotations(prefix)), without("a", "b"))
}

// Progress is no change: that is how an operator does not answer itself.
func TestBuildDoesNotSeeOurOwnWrites(t *testing.T) {
	for _, prefix := range []string{"", "op.example.com", "kopf.dev", "a-very-long-prefix-of-more-than-36-chars.example.com"} {
		t.Run("ESS-08 PROG-11 "+prefix, func(t *testing.T) {
			store, baseline := progress.Annotations(prefix), progress.AnnotationBaseline(prefix)
			obj := widget()
			before := build(obj.Object, baseline, store)
			for _, id := range []string{"fn", "a-handler-whose-id-is-so-long-that-it-does-not-fit-into-a-key/spec.field"} {
				if err := store.Store(obj, id, progress.Record{Retries: 1}); err != nil {
					t.Fatal(err)
				}
			}
			baseline.Store(obj, []byte(`{}`))
			equal(t, "essence", build(obj.Object, baseline, store), before)
		})
	}
}

func TestBuildDoesNotSeeOtherOperators(t *testing.T) {
	for _, prefix := range []string{"other.example.com", "kopf.example.com", "op.kopf.zalando.org"} { // the second one: SE-24
		obj := widget()
		before := build(obj.Object, cleaners()...)
		if err := progress.Annotations(prefix).Store(obj, "fn", progress.Record{Retries: 1}); err != nil {
			t.Fatal(err)
		}
		progress.AnnotationBaseline(prefix).Store(obj, []byte(`{}`))
		equal(t, "B-34 KEY-20 KEY-22 essence beside "+prefix, build(obj.Object, cleaners()...), before)
	}
}

func TestBuildIsTheSameForItsOwnResult(t *testing.T) {
	once := build(widget().Object, cleaners()...)
	equal(t, "ESS-14 essence of an essence", build(once, cleaners()...), once)
}

func TestBuildLeavesItsArgumentAlone(t *testing.T) {
	content, before := widget(), widget()
	got := build(content.Object, cleaners()...)
	equal(t, "object", content.Object, before.Object)
	got["metadata"].(map[string]any)["labels"].(map[string]any)["new"] = "x"
	got["metadata"].(map[string]any)["annotations"].(map[string]any)["new"] = "x"
	got["new"] = "x"
	equal(t, "object, after the essence was changed at its upper levels", content.Object, before.Object)
}

// What package children notes on a child is no change of it.
func TestOwnNotesDoNotCount(t *testing.T) {
	got := essence.Builder{}.Build(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"kopf-runtime.dev/applied.operator": "hash", "example.com/kopf-runtime.dev": "kept",
	}}})
	want := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/kopf-runtime.dev": "kept"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
