package retry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
)

const prefix = "example.com"

func annotated(annotations map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

func TestKeys_FindsRequests(t *testing.T) {
	keys := retry.NewKeys(prefix, []string{"provision", "resize/spec.size", strings.Repeat("long", 30)})
	found := keys.Find(annotated(map[string]string{
		"example.com/retry.provision":          "now",
		"example.com/retried.provision":        `{"request":"now","outcome":"retrying"}`,
		"example.com/retry.resize.spec.size":   "a",
		"example.com/retried.resize.spec.size": `{"request":"before","outcome":"retrying"}`,
		"example.com/retry.unknown":            "b",
		"example.com/retried.unknown":          "garbage",
		"other.com/retry.provision":            "c",
		"example.com/provision":                "{}",
	}))
	want := []retry.Request{
		{ID: "provision", Name: "provision", Text: "now", HasBegun: true},
		{ID: "resize/spec.size", Name: "resize.spec.size", Text: "a"},
		{Name: "unknown", Text: "b"},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("requests differ (-want +got):\n%s", diff)
	}
	if keys.HasWork(annotated(map[string]string{"example.com/retried.provision": `{"request":"now","outcome":"failed"}`})) {
		t.Error("a final answer is taken for a request")
	}
}

func TestKeys_AreValid(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"a", "a/b.c", "Class.method", "outer.<locals>.inner", "ends-", "_", strings.Repeat("x", 100), strings.Repeat("x", 101), "ä", ""} {
		for _, key := range []string{retry.RequestKey(prefix, id), retry.AnswerKey(prefix, id)} {
			if problems := validation.IsQualifiedName(key); id != "" && len(problems) > 0 {
				t.Errorf("%q: the key %q is invalid: %s", id, key, problems)
			}
			if other, taken := seen[key]; taken {
				t.Errorf("%q and %q have the same key %q", id, other, key)
			}
			seen[key] = id
		}
	}
}

func TestKeys_StoreAndForget(t *testing.T) {
	keys := retry.NewKeys(prefix, []string{"provision"})
	annotations := map[string]string{"example.com/retry.provision": "now", "example.com/retried.other": "{}", "a": "b"}
	one := keys.Find(annotated(annotations))[0]
	keys.Store(annotations, one, retry.Answer{Outcome: retry.Retrying, Message: strings.Repeat("ä", 1000)})
	if got := keys.Find(annotated(annotations)); len(got) != 1 || !got[0].HasBegun {
		t.Errorf("after the first attempt: %+v, want a request that has begun", got)
	}
	if size := len(annotations["example.com/retried.provision"]); size > 1200 {
		t.Errorf("the answer has %d bytes", size)
	}
	keys.Store(annotations, one, retry.Answer{Outcome: retry.Succeeded})
	want := map[string]string{
		"example.com/retried.provision": `{"request":"now","outcome":"succeeded"}`, "example.com/retried.other": "{}", "a": "b", "example.com/kopf-managed": "yes",
	}
	if diff := cmp.Diff(want, annotations); diff != "" {
		t.Errorf("annotations differ (-want +got):\n%s", diff)
	}
	content := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"example.com/retried.provision": "", "a": "b"}}}
	keys.Clear(content)
	if diff := cmp.Diff(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}}, content); diff != "" {
		t.Errorf("the cleared object differs (-want +got):\n%s", diff)
	}
	keys.Forget(annotations, true)
	if diff := cmp.Diff(map[string]string{"a": "b", "example.com/kopf-managed": "yes"}, annotations); diff != "" {
		t.Errorf("annotations differ (-want +got):\n%s", diff)
	}
}

// An answer that is stored too late doesn't remove a newer request.
func TestKeys_KeepNewerRequest(t *testing.T) {
	keys := retry.NewKeys(prefix, []string{"provision"})
	annotations := map[string]string{"example.com/retry.provision": "newer"}
	keys.Store(annotations, retry.Request{ID: "provision", Name: "provision", Text: "now"}, retry.Answer{Outcome: retry.Succeeded})
	if annotations["example.com/retry.provision"] != "newer" {
		t.Errorf("annotations = %v, want the newer request", annotations)
	}
}

func TestKeys_ForgetWithdrawn(t *testing.T) {
	keys := retry.NewKeys(prefix, []string{"a"})
	withdrawn := map[string]string{"example.com/retried.a": `{"request":"x","outcome":"retrying"}`, "example.com/retried.b": `{"request":"x","outcome":"failed"}`}
	if !keys.HasWithdrawn(annotated(withdrawn)) {
		t.Error("HasWithdrawn = false for an answer that says retrying, without a request")
	}
	keys.Forget(withdrawn, false)
	if diff := cmp.Diff(map[string]string{"example.com/retried.b": `{"request":"x","outcome":"failed"}`}, withdrawn); diff != "" {
		t.Errorf("annotations differ (-want +got):\n%s", diff)
	}
	if keys.HasWithdrawn(annotated(withdrawn)) {
		t.Error("HasWithdrawn = true for a final answer")
	}
}

func TestKeys_LongTexts(t *testing.T) {
	keys, long := retry.NewKeys(prefix, []string{"a"}), strings.Repeat("<", 100_000)
	annotations := map[string]string{"example.com/retry.a": long}
	keys.Store(annotations, retry.Request{ID: "a", Name: "a", Text: long}, retry.Answer{Outcome: retry.Retrying, Message: long})
	if size := len(annotations["example.com/retried.a"]); size > 8*1024 {
		t.Errorf("the answer has %d bytes", size)
	}
	if all := keys.Find(annotated(annotations)); !all[0].HasBegun {
		t.Error("the answer is not recognized")
	}
}
