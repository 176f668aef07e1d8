package progress_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// widget is an object of a Go type whose status has the fields of older operators.
type widget[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Status            S `json:"status,omitempty"`
}

func (w *widget[S]) DeepCopyObject() runtime.Object {
	out := *w // tests do not share statuses
	out.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &out
}

func widgetWith[S any](status S) *widget[S] {
	return &widget[S]{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "1"}, Status: status}
}

type (
	typedStatus struct {
		extras `json:",inline"`
		Phase  string `json:"phase,omitempty"`
	}
	extras struct {
		Kopf *typedKopf `json:"kopf,omitempty"`
	}
	typedKopf struct {
		Progress map[string]typedRecord `json:"progress,omitempty"`
		Other    string                 `json:"other,omitempty"`
	}
	typedRecord struct {
		Retries int64  `json:"retries,omitempty"`
		Purpose string `json:"purpose,omitempty"`
	}

	mapStatus struct {
		Kopf map[string]any `json:"kopf,omitempty"`
	}
	rawStatus struct {
		Kopf *runtime.RawExtension `json:"kopf,omitempty"`
	}
	ownStatus struct {
		Kopf *ownJSON `json:"kopf,omitempty"`
	}
	otherStatus struct {
		Kopf string `json:"kopf,omitempty"`
	}
)

// ownJSON implements json.Marshaler.
type ownJSON struct{ text []byte }

func (j *ownJSON) MarshalJSON() ([]byte, error)    { return j.text, nil }
func (j *ownJSON) UnmarshalJSON(text []byte) error { j.text = append(j.text[:0], text...); return nil }

// unencodable is an object that cannot be encoded as JSON.
type unencodable[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`
	Spec              refusal `json:"spec"`
	Status            S       `json:"status"`
}

type refusal struct{ Reason string }

func (r refusal) MarshalJSON() ([]byte, error) { return nil, errBoom }

func (s *unencodable[S]) DeepCopyObject() runtime.Object {
	out := *s
	out.ObjectMeta = *s.ObjectMeta.DeepCopy()
	return &out
}

type plainStatus struct {
	Phase string `json:"phase"`
	Kopf  struct {
		Version string `json:"version"`
	} `json:"kopf"`
}

// statusOf returns a status with the records of older operators.
func statusOf(records map[string]any) map[string]any {
	return map[string]any{"phase": "up", "kopf": map[string]any{"other": "d", "progress": records}}
}

func legacyObjects(id string) map[string]client.Object {
	text := []byte(`{"other":"d","progress":{"` + id + `":{"retries":2,"purpose":"create"}}}`)
	return map[string]client.Object{
		"untyped": withStatus(statusOf(map[string]any{id: map[string]any{"retries": int64(2), "purpose": "create", "message": nil}})),
		"typed": widgetWith(typedStatus{Phase: "up", extras: extras{
			Kopf: &typedKopf{Other: "d", Progress: map[string]typedRecord{id: {Retries: 2, Purpose: "create"}}},
		}}),
		"a map": widgetWith(mapStatus{map[string]any{
			"other": "d", "progress": map[string]any{id: map[string]any{"retries": int64(2), "purpose": "create"}},
		}}),
		"raw":              widgetWith(rawStatus{&runtime.RawExtension{Raw: text}}),
		"with custom JSON": widgetWith(ownStatus{&ownJSON{text}}),
	}
}

func TestSmart_ReadsStatus(t *testing.T) {
	for name, obj := range legacyObjects("a/b") {
		t.Run("PROG-05 "+name, func(t *testing.T) {
			record := mustFetch(t, progress.Smart(), obj, "a/b")
			if record == nil {
				t.Fatal("Fetch returned no record, want the record in the status")
			}
			equal(t, "record", *record, progress.Record{Retries: 2, Purpose: "create"})
			if other := mustFetch(t, progress.Smart(), obj, "a.b"); other != nil {
				t.Errorf("PROG-07: record of a.b = %+v, want none, because the status has raw ids", *other)
			}
		})
	}
}

// Trace C-10: an older operator has started the cycle.
func TestSmart_MovesRecordsToAnnotations(t *testing.T) {
	smart := progress.Smart()
	for name, obj := range legacyObjects("a") {
		t.Run(name, func(t *testing.T) {
			before := jsonOf(t, obj)["status"]
			mustStore(t, smart, obj, "a", progress.Record{Retries: 3, Purpose: "create"})
			equal(t, "PROG-05 annotations after Store", namesOf(obj, kopfPrefix), []string{"a"})
			equal(t, "PROG-05 status after Store", jsonOf(t, obj)["status"], before)
			equal(t, "PROG-05 retries", mustFetch(t, smart, obj, "a").Retries, 3)

			mustPurge(t, smart, obj, "a")
			if record := mustFetch(t, smart, obj, "a"); record != nil {
				t.Errorf("PROG-05: record after Purge = %+v, want none", *record)
			}
			content := jsonOf(t, obj)
			equal(t, "PROG-05 name", content["metadata"].(map[string]any)["name"], any("w"))
			status := content["status"].(map[string]any)
			equal(t, "PROG-05 phase", status["phase"], before.(map[string]any)["phase"])
			equal(t, "PROG-05 other field next to the records", status["kopf"].(map[string]any)["other"], any("d"))
			equal(t, "PROG-05 number of remaining annotations", len(namesOf(obj, kopfPrefix)), 0)
		})
	}
}

func TestSmart_PurgesOneOfSeveral(t *testing.T) {
	smart := progress.Smart()
	records := map[string]any{"a": map[string]any{"retries": int64(1)}, "b": map[string]any{"retries": int64(2)}}
	obj := withStatus(statusOf(records))
	mustPurge(t, smart, obj, "a")
	equal(t, "PROG-01 status", obj.Object["status"], any(statusOf(map[string]any{"b": map[string]any{"retries": int64(2)}})))

	typed := widgetWith(typedStatus{extras: extras{
		Kopf: &typedKopf{Progress: map[string]typedRecord{"a": {Retries: 1}, "b": {Retries: 2}}},
	}})
	mustPurge(t, smart, typed, "a")
	equal(t, "PROG-01 typed status", typed.Status.Kopf.Progress, map[string]typedRecord{"b": {Retries: 2}})
}

func TestSmart_NoLegacyRecords(t *testing.T) {
	for name, obj := range map[string]client.Object{
		"a type without the field":   configMap(),
		"a type with an empty field": widgetWith(typedStatus{}),
		"a type with a raw field":    widgetWith(rawStatus{}),
		"no status":                  withStatus(nil),
		"a status of another type":   withStatus(map[string]any{"kopf": "x"}),
		"progress of another type":   withStatus(statusOf(nil)),
		"a null instead of a record": withStatus(statusOf(map[string]any{"a": nil})),
	} {
		t.Run("PROG-05 "+name, func(t *testing.T) {
			if record := mustFetch(t, progress.Smart(), obj, "a"); record != nil {
				t.Errorf("record = %+v, want none", *record)
			}
			mustPurge(t, progress.Smart(), obj, "a")
		})
	}
}

func TestSmart_SkipsTypesWithoutField(t *testing.T) {
	for _, without := range []client.Object{&unencodable[plainStatus]{}, &unencodable[otherStatus]{}} {
		if record, err := progress.Smart().Fetch(without, "a"); record != nil || err != nil {
			t.Errorf("PROG-05: Fetch = %v, %v, want nothing: %T has no field for records", record, err, without)
		}
		mustPurge(t, progress.Smart(), without, "a")
	}

	with := &unencodable[typedStatus]{}
	var unreadable *progress.UnreadableError
	if record, err := progress.Smart().Fetch(with, "a"); record != nil || !errors.As(err, &unreadable) || !errors.Is(err, errBoom) {
		t.Errorf("B-30: Fetch = %v, %v, want an error", record, err)
	}
	if err := progress.Smart().Purge(with, "a"); !errors.Is(err, errBoom) {
		t.Errorf("Purge = %v, want an error", err)
	}
}

func TestSmart_UnreadableRecords(t *testing.T) {
	broken := map[string]any{"a": map[string]any{"retries": "many"}}
	sound := map[string]any{"a": map[string]any{"retries": int64(2)}}
	for _, test := range []struct {
		name       string
		status     map[string]any
		annotation string
		want       *progress.Record
		place      string // part of the error; empty for no error
	}{
		{"B-30 an unreadable record in the status", broken, "", nil, "status.kopf.progress.a"},
		{"B-30 a record in the status that is not an object", map[string]any{"a": "x"}, "", nil, "status.kopf.progress.a"},
		{"B-30 PROG-05 a valid annotation takes precedence", broken, `{"retries":1}`, &progress.Record{Retries: 1}, ""},
		{"B-30 unreadable records in the status and the annotation", broken, "{", nil, kopfPrefix + "/a"},
		{"B-30 an unreadable annotation is reported, and the status is used", sound, "{", &progress.Record{Retries: 2}, kopfPrefix + "/a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := withStatus(statusOf(test.status))
			if test.annotation != "" {
				obj.SetAnnotations(map[string]string{kopfPrefix + "/a": test.annotation})
			}
			record, err := progress.Smart().Fetch(obj, "a")
			equal(t, "record", record, test.want)
			var unreadable *progress.UnreadableError
			switch {
			case test.place == "" && err != nil:
				t.Errorf("error = %v, want none", err)
			case test.place != "" && (!errors.As(err, &unreadable) || !strings.Contains(err.Error(), test.place)):
				t.Errorf("error = %v, want an error about %s", err, test.place)
			}
		})
	}
}

func TestSmart_Clear(t *testing.T) {
	for _, test := range []struct {
		name          string
		essence, want map[string]any
	}{
		{
			"ESS-08 PROG-05 the annotations, the field and its empty parents",
			map[string]any{
				"metadata": essenceOf(kopfPrefix+"/a", "x")["metadata"],
				"status":   map[string]any{"kopf": map[string]any{"progress": map[string]any{"a": map[string]any{}}}},
			},
			map[string]any{},
		},
		{
			"ESS-08 other fields and the touch field are kept",
			map[string]any{"status": statusOf(map[string]any{"a": map[string]any{}})},
			map[string]any{"status": map[string]any{"phase": "up", "kopf": map[string]any{"other": "d"}}},
		},
		{
			"ESS-08 fields next to the empty field are kept",
			map[string]any{"status": map[string]any{"phase": "up", "kopf": map[string]any{"progress": map[string]any{}}}},
			map[string]any{"status": map[string]any{"phase": "up"}},
		},
		{"ESS-08 a field kopf that is not an object is kept", map[string]any{"status": map[string]any{"kopf": "x"}}, map[string]any{"status": map[string]any{"kopf": "x"}}},
		{"ESS-08 nothing to clear", map[string]any{"spec": "x"}, map[string]any{"spec": "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			progress.Smart().Clear(test.essence)
			equal(t, "essence", test.essence, test.want)
		})
	}
}
