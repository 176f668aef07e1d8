package essence_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// cleaners returns the cleaners of an operator with default settings.
func cleaners() []essence.Cleaner {
	return []essence.Cleaner{progress.AnnotationBaseline(""), progress.Smart()}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// annotated returns an object with annotations. The arguments alternate between keys and values.
func annotated(annotations ...string) map[string]any {
	all := map[string]any{}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	return map[string]any{"metadata": map[string]any{"name": "w", "annotations": all}}
}

// annotationsOnly returns the essence of an object with these annotations.
func annotationsOnly(annotations ...string) map[string]any {
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
			name: "ESS-01 omits only apiVersion, kind, metadata and status",
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
			name:    "ESS-01 keeps nested fields with these names",
			content: map[string]any{"spec": map[string]any{"kind": "A", "status": "x", "metadata": map[string]any{"name": "a"}}},
			want:    map[string]any{"spec": map[string]any{"kind": "A", "status": "x", "metadata": map[string]any{"name": "a"}}},
		},
		{
			name: "ESS-02 keeps only labels and annotations of the metadata",
			content: map[string]any{"metadata": map[string]any{
				"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "2", "generation": int64(3), "selfLink": "/",
				"creationTimestamp": "2020-12-31T23:59:59Z", "deletionTimestamp": "2020-12-31T23:59:59Z",
				"finalizers": []any{"f"}, "ownerReferences": []any{map[string]any{"kind": "B"}}, "managedFields": []any{map[string]any{}},
				"labels": map[string]any{"l": "v"}, "annotations": map[string]any{"a": "b"},
			}},
			want: map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "v"}, "annotations": map[string]any{"a": "b"}}},
		},
		{
			name:    "ESS-06 omits empty labels and annotations",
			content: map[string]any{"metadata": map[string]any{"labels": map[string]any{}, "annotations": map[string]any{}}, "spec": map[string]any{"a": "b"}},
			want:    map[string]any{"spec": map[string]any{"a": "b"}},
		},
		{
			name:    "ESS-06 empty labels",
			content: map[string]any{"metadata": map[string]any{"labels": map[string]any{}, "annotations": map[string]any{"a": "b"}}},
			want:    annotationsOnly("a", "b"),
		},
		{
			name:    "ESS-06 keeps empty fields",
			content: map[string]any{"spec": map[string]any{}, "data": nil, "rules": []any{}, "x": map[string]any{"e": map[string]any{}}},
			want:    map[string]any{"spec": map[string]any{}, "data": nil, "rules": []any{}, "x": map[string]any{"e": map[string]any{}}},
		},
		{
			name:    "ESS-06 returns an empty essence",
			content: map[string]any{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{}},
			want:    map[string]any{},
		},
		{name: "ESS-06 an empty object", content: nil, want: map[string]any{}},
		{
			name:    "ESS-02 omits metadata that is not an object",
			content: map[string]any{"metadata": "x", "spec": "y"},
			want:    map[string]any{"spec": "y"},
		},
		{
			name:    "ESS-02 omits labels that are not an object",
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

// Annotations of kopf operators do not belong to an essence, not even those of other operators.
func TestBuild_RemovesAnnotationsOfOperators(t *testing.T) {
	for _, test := range []struct {
		name          string
		content, want map[string]any
	}{
		{
			"ESS-03 the last-applied configuration of kubectl",
			annotated("kubectl.kubernetes.io/last-applied-configuration", "{}", "kubectl.kubernetes.io/restartedAt", "now"),
			annotationsOnly("kubectl.kubernetes.io/restartedAt", "now"),
		},
		{
			"ESS-03 keeps other annotations of Kubernetes",
			annotated("deployment.kubernetes.io/revision", "1"), annotationsOnly("deployment.kubernetes.io/revision", "1"),
		},
		{
			"KEY-22 DLY-10 the prefix of kopf",
			annotated("kopf.zalando.org/create_fn", "{}", "kopf.zalando.org/touch-dummy", "now", "kopf.zalando.org/last-handled-configuration", "{}", "a", "b"),
			annotationsOnly("a", "b"),
		},
		{"KEY-22 subdomains of the prefix", annotated("op.kopf.zalando.org/x", "y", "a.b.kopf.zalando.org/x", "y", "a", "b"), annotationsOnly("a", "b")},
		{
			"KEY-22 B-34 prefixes with a marker",
			annotated("other-op.example.com/kopf-managed", "yes", "other-op.example.com/x", "y", "other-op.example.com/z", "y", "a", "b"),
			annotationsOnly("a", "b"),
		},
		{"KEY-22 a marker with any value", annotated("op.example.com/kopf-managed", "", "op.example.com/x", "y", "a", "b"), annotationsOnly("a", "b")},
		{
			"KEY-22 the marker applies only to its own prefix",
			annotated("op.example.com/kopf-managed", "yes", "example.com/x", "y", "x.op.example.com/x", "y", "op.example.community/x", "y"),
			annotationsOnly("example.com/x", "y", "x.op.example.com/x", "y", "op.example.community/x", "y"),
		},
		{
			"KEY-23 prefixes that contain kopf",
			annotated("kopf.dev/x", "y", "kopf-domain.tld/x", "y", "domain.kopf.tld/x", "y", "xkopf.zalando.org/x", "y", "kopf.zalando.org.tld/x", "y"),
			annotationsOnly("kopf.dev/x", "y", "kopf-domain.tld/x", "y", "domain.kopf.tld/x", "y", "xkopf.zalando.org/x", "y", "kopf.zalando.org.tld/x", "y"),
		},
		{"KEY-23 a prefix that contains kopf, with a marker", annotated("kopf.dev/kopf-managed", "yes", "kopf.dev/x", "y", "a", "b"), annotationsOnly("a", "b")},
		{
			"KEY-22 names without a prefix",
			annotated("kopf-managed", "yes", "kopf.zalando.org", "x", "a", "b"), annotationsOnly("kopf-managed", "yes", "kopf.zalando.org", "x", "a", "b"),
		},
		{"ESS-06 all annotations", annotated("kopf.zalando.org/x", "y"), map[string]any{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "essence", build(test.content, cleaners()...), test.want)
			equal(t, "essence without cleaners", build(test.content), test.want)
		})
	}
}

func TestBuild_AppliesCleaners(t *testing.T) {
	const prefix = "op.example.com" // a custom prefix without its marker annotation
	content := annotated(prefix+"/fn", "{}", prefix+"/last-handled-configuration", "{}", prefix+"/last-handled-configuration-ofDRS", "{}", "a", "b")
	equal(t, "ESS-07 removes the keys of the baseline", build(content, progress.AnnotationBaseline(prefix)), annotationsOnly(prefix+"/fn", "{}", "a", "b"))
	equal(t, "ESS-08 removes all keys with the prefix of the progress store", build(content, progress.Annotations(prefix)), annotationsOnly("a", "b"))
	equal(t, "ESS-07 ESS-08 removes the keys of both", build(content, progress.AnnotationBaseline(prefix), progress.Annotations(prefix)), annotationsOnly("a", "b"))
}

// Stored progress does not change the essence, so an operator does not handle its own writes.
func TestBuild_IgnoresOwnWrites(t *testing.T) {
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

func TestBuild_IgnoresOtherOperators(t *testing.T) {
	for _, prefix := range []string{"other.example.com", "kopf.example.com", "op.kopf.zalando.org"} { // the second operator is the one of SE-24
		obj := widget()
		before := build(obj.Object, cleaners()...)
		if err := progress.Annotations(prefix).Store(obj, "fn", progress.Record{Retries: 1}); err != nil {
			t.Fatal(err)
		}
		progress.AnnotationBaseline(prefix).Store(obj, []byte(`{}`))
		equal(t, "B-34 KEY-20 KEY-22 essence with operator "+prefix, build(obj.Object, cleaners()...), before)
	}
}

func TestBuild_IsIdempotent(t *testing.T) {
	once := build(widget().Object, cleaners()...)
	equal(t, "ESS-14 essence of an essence", build(once, cleaners()...), once)
}

func TestBuild_DoesNotChangeItsArgument(t *testing.T) {
	content, before := widget(), widget()
	got := build(content.Object, cleaners()...)
	equal(t, "object", content.Object, before.Object)
	got["metadata"].(map[string]any)["labels"].(map[string]any)["new"] = "x"
	got["metadata"].(map[string]any)["annotations"].(map[string]any)["new"] = "x"
	got["new"] = "x"
	equal(t, "object after a change to the upper levels of the essence", content.Object, before.Object)
}

// The essence of a child does not contain the annotations of package children.
func TestBuild_RemovesAnnotationsOfChildren(t *testing.T) {
	got := essence.Builder{}.Build(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		"kopf-runtime.dev/applied.operator": "hash", "example.com/kopf-runtime.dev": "kept",
	}}})
	want := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/kopf-runtime.dev": "kept"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
