package patch

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestChange_DroppedFields(t *testing.T) {
	type m = map[string]any
	for _, test := range []struct {
		name         string
		part, stored m
		sent         m // sent fields; if nil, the part was sent
		want         []string
	}{
		{"all fields are stored", m{"status": m{"a": "b"}}, m{"status": m{"a": "b"}}, nil, nil},
		{"a field", m{"status": m{"a": "b"}}, m{"status": m{}}, nil, []string{"status.a"}},
		{"the topmost field only", m{"status": m{"a": m{"b": "c"}}}, m{}, nil, []string{"status"}},
		{"another value is stored", m{"status": m{"a": "b"}}, m{"status": m{"a": "c"}}, nil, nil},
		{"another type is stored", m{"status": m{"a": m{"b": "c"}}}, m{"status": m{"a": "text"}}, nil, nil},
		{"removals and empty values", m{"a": nil, "b": m{}, "c": []any{}, "d": m{"e": nil, "f": m{}}}, m{}, nil, nil},
		{"zero values count", m{"a": "", "b": false, "c": int64(0)}, m{}, nil, []string{"a", "b", "c"}},
		{"a field of list items", m{"l": []any{m{"a": "b", "c": "d"}, m{"a": "b", "c": "d"}}}, m{"l": []any{m{"a": "b"}, m{"a": "b"}}}, nil, []string{"l[].c"}},
		{"lists of other lengths", m{"l": []any{m{"a": "b"}}}, m{"l": []any{m{}, m{}}}, nil, nil},
		{"fields of another request", m{"spec": m{"a": "b"}, "status": m{"a": "b"}}, m{}, m{"status": m{"a": "b"}}, []string{"status"}},
		{"a field that another handler has removed", m{"status": m{"a": "b", "c": "d"}}, m{"status": m{}}, m{"status": m{"a": nil, "c": "d"}}, []string{"status.c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.sent == nil {
				test.sent = test.part
			}
			change := &Change{responses: []response{{sent: test.sent, object: &unstructured.Unstructured{Object: test.stored}}}}
			if got := change.DroppedFields(test.part); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
