package progress_test

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var (
	full = progress.Record{
		Started: t0, Stopped: t0.Add(time.Second), Delayed: t0.Add(time.Minute), Purpose: "update", Retries: 3,
		Success: true, Failure: true, Message: "ё<&>", Subrefs: []string{"fn/a", "fn/b"},
	}
	fullFields = map[string]any{
		"started": "2020-12-31T23:59:59.123456+00:00", "stopped": "2021-01-01T00:00:00.123456+00:00",
		"delayed": "2021-01-01T00:00:59.123456+00:00", "purpose": "update", "retries": int64(3),
		"success": true, "failure": true, "message": "ё<&>", "subrefs": []any{"fn/a", "fn/b"},
	}
)

type (
	wholeStatus struct {
		Phase string     `json:"phase,omitempty"`
		Kopf  *wholeKopf `json:"kopf,omitempty"`
	}
	wholeKopf struct {
		Progress    map[string]wholeRecord `json:"progress,omitempty"`
		LastHandled string                 `json:"last-handled-configuration,omitempty"`
	}
	wholeRecord struct {
		Started *metav1.MicroTime `json:"started,omitempty"`
		Stopped string            `json:"stopped,omitempty"`
		Delayed *string           `json:"delayed,omitempty"`
		Purpose string            `json:"purpose,omitempty"`
		Retries int32             `json:"retries"`
		Success bool              `json:"success"`
		Failure bool              `json:"failure"`
		Message string            `json:"message,omitempty"`
		Subrefs []string          `json:"subrefs,omitempty"`
	}
)

// fieldObjects returns one object of each type that can store records in its status.
func fieldObjects() map[string]client.Object {
	return map[string]client.Object{
		"untyped":                  withStatus(map[string]any{"phase": "up"}),
		"untyped, without records": withStatus(nil),
		"typed":                    widgetWith(wholeStatus{Phase: "up"}),
		"a map":                    widgetWith(mapStatus{}),
		"raw":                      widgetWith(rawStatus{}),
		"raw, with another field":  widgetWith(rawStatus{&runtime.RawExtension{Raw: []byte(`{"other":"d"}`)}}),
		"with custom JSON":         widgetWith(ownStatus{&ownJSON{[]byte(`{"other":"d"}`)}}),
	}
}

func TestStatus_StoresRecords(t *testing.T) {
	for name, obj := range fieldObjects() {
		t.Run("PROG-07 "+name, func(t *testing.T) {
			s := progress.Status("")
			empty := jsonOf(t, obj)
			other := progress.Record{Started: t0, Purpose: "create"}
			mustStore(t, s, obj, "fn", full)
			mustStore(t, s, obj, "fn/spec.a", other)
			equal(t, "PROG-01 record", mustFetch(t, s, obj, "fn"), &full)
			equal(t, "PROG-07 record under the raw id", mustFetch(t, s, obj, "fn/spec.a"), &other)
			if record := mustFetch(t, s, obj, "fn.spec.a"); record != nil {
				t.Errorf("record of an unknown handler = %+v, want none", *record)
			}
			equal(t, "number of annotations", len(obj.GetAnnotations()), 0)

			mustStore(t, s, obj, "fn", progress.Record{Retries: 4})
			equal(t, "PROG-07 record after another Store", mustFetch(t, s, obj, "fn"), &progress.Record{Retries: 4})

			mustPurge(t, s, obj, "fn")
			if record := mustFetch(t, s, obj, "fn"); record != nil {
				t.Errorf("PROG-20: record after Purge = %+v, want none", *record)
			}
			equal(t, "PROG-20 other record after Purge", mustFetch(t, s, obj, "fn/spec.a"), &other)
			mustPurge(t, s, obj, "fn/spec.a")
			left := jsonOf(t, obj)
			s.Clear(left)
			s.Clear(empty)
			equal(t, "remaining content", left, empty)
		})
	}
}

func TestStatus_FormatOfKopf(t *testing.T) {
	for _, test := range []struct {
		name, field string
		record      progress.Record
		want        map[string]any // the expected status
	}{
		{"PROG-07 all fields", "", full, statusOf(map[string]any{"a/b": fullFields})},
		{"PROG-07 only non-empty fields", "", progress.Record{Started: t0, Purpose: "create"}, statusOf(map[string]any{"a/b": map[string]any{
			"started": "2020-12-31T23:59:59.123456+00:00", "purpose": "create", "retries": int64(0), "success": false, "failure": false,
		}})},
		{"PROG-07 a custom field", "status.my.own.place", progress.Record{Retries: 1}, map[string]any{
			"phase": "up", "kopf": map[string]any{"other": "d", "progress": map[string]any{}},
			"my": map[string]any{"own": map[string]any{"place": map[string]any{
				"a/b": map[string]any{"retries": int64(1), "success": false, "failure": false},
			}}},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := withStatus(statusOf(map[string]any{}))
			mustStore(t, progress.Status(test.field), obj, "a/b", test.record)
			equal(t, "status", obj.Object["status"], any(test.want))
		})
	}
}

func TestStatus_ReplacesNulls(t *testing.T) {
	obj := withStatus(map[string]any{"kopf": nil})
	mustStore(t, progress.Status(""), obj, "a", full)
	equal(t, "PROG-07 status", obj.Object["status"], any(map[string]any{"kopf": map[string]any{"progress": map[string]any{"a": fullFields}}}))
	bare := &unstructured.Unstructured{}
	mustStore(t, progress.Status("status.mine"), bare, "a", full)
	equal(t, "PROG-07 object without content", bare.Object, map[string]any{"status": map[string]any{"mine": map[string]any{"a": fullFields}}})
}

// kopf writes nulls for empty fields. A merge patch contains nulls only for removed fields.
func TestStatus_MergePatch(t *testing.T) {
	s := progress.Status("")
	for name, obj := range map[string]client.Object{"untyped": withStatus(nil), "typed": widgetWith(wholeStatus{})} {
		t.Run(name, func(t *testing.T) {
			delayed := progress.Record{Retries: 1, Delayed: t0, Message: "boom"}
			mustStore(t, s, obj, "a", delayed)
			mustStore(t, s, obj, "b", delayed)
			before := obj.DeepCopyObject().(client.Object)
			if w, ok := before.(*widget[wholeStatus]); ok { // copies of a widget share its status
				w.Status.Kopf = new(*w.Status.Kopf)
				w.Status.Kopf.Progress = maps.Clone(w.Status.Kopf.Progress)
			}
			mustStore(t, s, obj, "a", progress.Record{Retries: 2, Success: true})
			mustPurge(t, s, obj, "b")
			text, err := client.MergeFrom(before).Data(obj)
			if err != nil {
				t.Fatal(err)
			}
			var patch any
			if err := json.Unmarshal(text, &patch); err != nil {
				t.Fatal(err)
			}
			equal(t, "PROG-07 PROG-20 patch", patch, any(map[string]any{"status": map[string]any{"kopf": map[string]any{"progress": map[string]any{
				"a": map[string]any{"delayed": nil, "message": nil, "retries": 2.0, "success": true},
				"b": nil,
			}}}}))
		})
	}
}

// kopf writes status.kopf.dummy to wake itself up. If it is killed then, the field would stay forever.
func TestStatus_RemovesTouchOfKopf(t *testing.T) {
	store := progress.Status("")
	obj := withStatus(map[string]any{"phase": "up", "kopf": map[string]any{
		"dummy": "2021-01-01T00:01:00.000123+00:00", "progress": map[string]any{"fn": fullFields},
	}})
	if err := store.Store(obj, "fn", full); err != nil {
		t.Fatal(err)
	}
	if kopf := obj.Object["status"].(map[string]any)["kopf"].(map[string]any); kopf["dummy"] == nil {
		t.Error("storing a record removed the touch, which costs a conversion of typed objects")
	}
	if err := store.Purge(obj, "fn"); err != nil {
		t.Fatal(err)
	}
	status := obj.Object["status"].(map[string]any)
	if kopf := status["kopf"].(map[string]any); kopf["dummy"] != nil || status["phase"] != "up" {
		t.Errorf("the status is %v, want no dummy", status)
	}
}

func TestStatus_Errors(t *testing.T) {
	for _, test := range []struct {
		name    string
		obj     client.Object
		problem string
	}{
		{"B-33 a Go type without the field", configMap("a", "b"), "*v1.ConfigMap has no field status:"},
		{"B-33 a Go type without a part of the field", widgetWith(plainStatus{Phase: "up"}), "has no field status.kopf.progress:"},
		{"B-33 an object with only metadata", &metav1.PartialObjectMetadata{}, "*v1.PartialObjectMetadata has no field status:"},
		{"a Go type with a field of another type", widgetWith(struct {
			Kopf struct {
				Progress map[string]int `json:"progress"`
			} `json:"kopf"`
		}{}), "does not fit"},
		{"a string instead of an object", withStatus(map[string]any{"kopf": "x"}), "status.kopf: expected an object"},
		{"an object that cannot be encoded", &unencodable[typedStatus]{}, "boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.obj.DeepCopyObject()
			err := progress.Status("").Store(test.obj, "fn", full)
			if err == nil || !strings.Contains(err.Error(), test.problem) || !strings.Contains(err.Error(), `"fn"`) {
				t.Errorf("Store = %v, want an error about the handler, with %q", err, test.problem)
			}
			if !reflect.DeepEqual(test.obj, before) {
				t.Errorf("object = %+v, want no change", test.obj)
			}
		})
	}
}

func TestStatus_UnreadableRecords(t *testing.T) {
	for name, value := range map[string]any{
		"not an object": "x", "a field of another type": map[string]any{"retries": "many"}, "a value that cannot be encoded": map[string]any{"retries": func() {}},
	} {
		t.Run("B-30 "+name, func(t *testing.T) {
			obj := withStatus(statusOf(map[string]any{"a": value}))
			record, err := progress.Status("").Fetch(obj, "a")
			var unreadable *progress.UnreadableError
			if record != nil || !errors.As(err, &unreadable) || unreadable.Place != "status.kopf.progress.a" {
				t.Errorf("Fetch = %v, %v, want an error about status.kopf.progress.a", record, err)
			}
			mustStore(t, progress.Status(""), obj, "a", full)
			equal(t, "B-30 replaced", mustFetch(t, progress.Status(""), obj, "a"), &full)
		})
	}
}

// Copies of cached objects may share maps with the cache.
func TestStatus_DoesNotModifySharedMaps(t *testing.T) {
	shared := withStatus(statusOf(map[string]any{"a": fullFields, "b": fullFields}))
	before := shared.DeepCopy()
	shallow := func() *unstructured.Unstructured { return &unstructured.Unstructured{Object: shared.Object} }
	s := progress.Status("")
	mustStore(t, s, shallow(), "a", progress.Record{})
	mustPurge(t, s, shallow(), "a")
	if err := s.(progress.Sweeper).Sweep(shallow(), nil); err != nil {
		t.Fatal(err)
	}
	progress.StatusBaseline("").Store(shallow(), []byte("{}"))
	s.Clear(maps.Clone(shared.Object))
	progress.StatusBaseline("status.phase").Clear(maps.Clone(shared.Object))
	equal(t, "cached object", shared, before)
}

func TestStatus_CheckField(t *testing.T) {
	for _, test := range []struct {
		name, field string
		fine        bool
	}{
		{"PROG-07 ESS-13 default field", "", true},
		{"PROG-07 ESS-13 custom field", "status.my-operator.place", true},
		{"a field outside the status", "spec.place", true},
		{"the whole status", "status", false},
		{"an empty element", "status..place", false},
		{"an empty element at the end", "status.", false},
		{"the metadata", "metadata.annotations", false},
		{"the kind", "kind.place", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, it := range []any{progress.Status(test.field), progress.StatusBaseline(test.field)} {
				err := it.(progress.Checker).Check()
				if (err == nil) != test.fine || err != nil && !strings.Contains(err.Error(), `"`+test.field+`"`) {
					t.Errorf("Check of %T = %v, want an error: %t", it, err, !test.fine)
				}
			}
		})
	}
}

func TestStatus_Key(t *testing.T) {
	checker := progress.Status("").(progress.KeyChecker)
	for _, id := range []string{"fn", "fn/spec.a", "lambda:/a/b.py:12", repeat("é", 100)} {
		if key, err := checker.Key(id); key != id || err != nil {
			t.Errorf("PROG-07: Key(%q) = %q, %v, want the unchanged id", id, key, err)
		}
	}
	if _, err := checker.Key(""); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("B-21: error of Key for an empty id = %v, want an error", err)
	}
}

func TestStatus_Clear(t *testing.T) {
	for _, test := range []struct {
		name, field   string
		essence, want map[string]any
	}{
		{
			"ESS-08 the field and its empty parents are removed", "",
			map[string]any{"spec": "x", "status": map[string]any{"kopf": map[string]any{"progress": map[string]any{"a": fullFields}}}},
			map[string]any{"spec": "x"},
		},
		{
			"ESS-08 other fields are kept", "", map[string]any{"status": statusOf(map[string]any{"a": fullFields})},
			map[string]any{"status": map[string]any{"phase": "up", "kopf": map[string]any{"other": "d"}}},
		},
		{
			"ESS-08 a custom field is removed", "status.mine", map[string]any{"status": map[string]any{"mine": map[string]any{}, "kopf": "x"}},
			map[string]any{"status": map[string]any{"kopf": "x"}},
		},
		{"ESS-08 a status that is not an object is kept", "", map[string]any{"status": "x"}, map[string]any{"status": "x"}},
		{"ESS-08 nothing to clear", "", map[string]any{"spec": "x"}, map[string]any{"spec": "x"}},
		{"ESS-08 annotations are kept", "", essenceOf(kopfPrefix+"/a", "x"), essenceOf(kopfPrefix+"/a", "x")},
	} {
		t.Run(test.name, func(t *testing.T) {
			progress.Status(test.field).Clear(test.essence)
			equal(t, "essence", test.essence, test.want)
		})
	}
}

// Operators compare stores to detect shared storage locations.
func TestStores_AreComparable(t *testing.T) {
	made := func() []any {
		return []any{
			progress.Annotations(""), progress.Annotations("a.b"), progress.AnnotationsV2(""), progress.Smart(),
			progress.Status(""), progress.Status("status.a"),
			progress.AnnotationBaseline(""), progress.AnnotationBaseline("a.b"), progress.AnnotationBaselineV2(""),
			progress.StatusBaseline(""), progress.StatusBaseline("status.a"),
		}
	}
	again := made()
	for i, one := range made() {
		if !reflect.ValueOf(one).Comparable() || slices.Index(again, one) != i {
			t.Errorf("%T %d must be equal only to an identical store", one, i)
		}
	}
}
