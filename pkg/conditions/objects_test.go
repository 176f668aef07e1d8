package conditions_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// kind is a Go type with a status of type S.
type kind[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            S `json:"status"`
}

func (k *kind[S]) DeepCopyObject() runtime.Object {
	text, err := json.Marshal(k)
	if err != nil {
		panic(err)
	}
	out := &kind[S]{}
	if err := json.Unmarshal(text, out); err != nil {
		panic(err)
	}
	return out
}

type (
	standardList struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	}
	inlined struct{ standardList } // an unexported type whose fields JSON inlines
	pointed struct {
		Conditions []*loose `json:"conditions,omitempty"`
	}
	mapped struct {
		Conditions map[string]loose `json:"conditions,omitempty"`
	}
	mappedPointers struct {
		Conditions map[corev1.PodConditionType]*loose `json:"conditions,omitempty"`
	}
	elsewhere struct {
		Health *standardList `json:"health,omitempty"`
	}

	// loose is a condition with a pointer to its time and without a generation.
	loose struct {
		Type               string       `json:"type,omitempty"`
		Status             string       `json:"status"`
		Reason             string       `json:"reason,omitempty"`
		Message            string       `json:"message,omitempty"`
		LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
		Weight             int          `json:"weight,omitempty"`
	}
)

// accessible has accessor methods for its conditions.
type accessible struct {
	kind[struct{}]
	hidden []metav1.Condition
}

func (a *accessible) GetConditions() []metav1.Condition           { return a.hidden }
func (a *accessible) SetConditions(conditions []metav1.Condition) { a.hidden = conditions }

// shape is a representation of conditions.
type shape struct {
	name       string
	obj        client.Object
	opts       []conditions.Option
	generation bool // the conditions have observedGeneration
	sorted     bool // the conditions are sorted by type
}

func shapes() []shape {
	return []shape{
		{"list", &kind[standardList]{}, nil, true, false},
		{"list behind a pointer", &kind[*standardList]{}, nil, true, false},
		{"list inlined", &kind[inlined]{}, nil, true, false},
		{"list elsewhere", &kind[elsewhere]{}, []conditions.Option{conditions.At("status.health.conditions")}, true, false},
		{"list of pointers", &kind[pointed]{}, nil, false, false},
		{"map", &kind[mapped]{}, nil, false, true},
		{"map of pointers", &kind[mappedPointers]{}, nil, false, true},
		{"accessors", &accessible{}, nil, true, false},
		{"Deployment", &appsv1.Deployment{}, nil, false, false},
		{"Node", &corev1.Node{}, nil, false, false},
		{"Pod", &corev1.Pod{}, nil, true, false},
		{"Job", &batchv1.Job{}, nil, false, false},
		{"Service", &corev1.Service{}, nil, true, false},
		{"CustomResourceDefinition", &apiextensionsv1.CustomResourceDefinition{}, nil, true, false},
		{"unstructured", parse(`{}`), nil, true, false},
		{"unstructured elsewhere", parse(`{}`), []conditions.Option{conditions.At("status.a.b")}, true, false},
		{"unstructured map", parse(`{}`), []conditions.Option{conditions.AsMap()}, true, true},
		{"adapter", parse(`{}`), []conditions.Option{conditions.Using(flags)}, false, true},
	}
}

func parse(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		panic(err)
	}
	u.Object = runtime.DeepCopyJSON(normalizeNumbers(u.Object).(map[string]any))
	return u
}

// normalizeNumbers converts numbers to the types of a JSON decoder.
func normalizeNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = normalizeNumbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = normalizeNumbers(item)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

func text(t *testing.T, value any) string {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func setOf(t *testing.T, obj client.Object, opts ...conditions.Option) *conditions.Set {
	t.Helper()
	s, err := conditions.For(obj, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }
