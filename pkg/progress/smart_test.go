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

// A widget is an object of a Go type whose status has the fields of older operators.
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
		Dummy    string                 `json:"dummy,omitempty"`
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

// An unencodable object cannot be encoded as JSON.
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
	return map[string]any{"phase": "up", "kopf": map[string]any{"dummy": "d", "progress": records}}
}

func legacyObjects(id string) map[string]client.Object {
	text := []byte(`{"dummy":"d","progress":{"` + id + `":{"retries":2,"purpose":"create"}}}`)
	return map[string]client.Object{
		"untyped": withStatus(statusOf(map[string]any{id: map[string]any{"retries": int64(2), "purpose": "create", "message": nil}})),
		"typed": widgetWith(typedStatus{Phase: "up", extras: extras{
			Kopf: &typedKopf{Dummy: "d", Progress: map[string]typedRecord{id: {Retries: 2, Purpose: "create"}}},
		}}),
		"a map": widgetWith(mapStatus{map[string]any{
			"dummy": "d", "progress": map[string]any{id: map[string]any{"retries": int64(2), "purpose": "create"}},
		}}),
		"raw":                  widgetWith(rawStatus{&runtime.RawExtension{Raw: text}}),
		"with JSON of its own": widgetWith(ownStatus{&ownJSON{text}}),
	}
}

func TestSmart_ReadsStatus(t *testing.T) {
	for name, obj := range legacyObjects("a/b") {
		t.Run("PROG-05 "+name, func(t *testing.T) {
			record := mustFetch(t, progress.Smart(), obj, "a/b")
			if record == nil {
				t.Fatal("the record in the status was not found")
			}
			equal(t, "record", *record, progress.Record{Retries: 2, Purpose: "create"})
			if other := mustFetch(t, progress.Smart(), obj, "a.b"); other != nil {
				t.Errorf("PROG-07: the ids of the status are raw, but a.b is %+v", *other)
			}
		})
	}
}

// Trace C-10: an older operator has started the cause.
func TestSmart_MovesRecordsToAnnotations(t *testing.T) {
	smart := progress.Smart()
	for name, obj := range legacyObjects("a") {
		t.Run(name, func(t *testing.T) {
			before := jsonOf(t, obj)["status"]
			mustStore(t, smart, obj, "a", progress.Record{Retries: 3, Purpose: "create"})
			equal(t, "PROG-05 written to annotations", namesOf(obj, kopfPrefix), []string{"a"})
			equal(t, "PROG-05 and not to the status", jsonOf(t, obj)["status"], before)
			equal(t, "PROG-05 annotations first", mustFetch(t, smart, obj, "a").Retries, 3)

			mustPurge(t, smart, obj, "a")
			if record := mustFetch(t, smart, obj, "a"); record != nil {
				t.Errorf("PROG-05: after purging there is %+v", *record)
			}
			content := jsonOf(t, obj)
			equal(t, "PROG-05 all else stays: the name", content["metadata"].(map[string]any)["name"], any("w"))
			status := content["status"].(map[string]any)
			equal(t, "PROG-05 all else stays: the phase", status["phase"], before.(map[string]any)["phase"])
			equal(t, "PROG-05 all else stays: what is beside", status["kopf"].(map[string]any)["dummy"], any("d"))
			equal(t, "PROG-05 annotations are purged", len(namesOf(obj, kopfPrefix)), 0)
		})
	}
}

func TestSmart_PurgesOneOfSeveral(t *testing.T) {
	smart := progress.Smart()
	records := map[string]any{"a": map[string]any{"retries": int64(1)}, "b": map[string]any{"retries": int64(2)}}
	obj := withStatus(statusOf(records))
	mustPurge(t, smart, obj, "a")
	equal(t, "PROG-01 the status", obj.Object["status"], any(statusOf(map[string]any{"b": map[string]any{"retries": int64(2)}})))

	typed := widgetWith(typedStatus{extras: extras{
		Kopf: &typedKopf{Progress: map[string]typedRecord{"a": {Retries: 1}, "b": {Retries: 2}}},
	}})
	mustPurge(t, smart, typed, "a")
	equal(t, "PROG-01 the typed status", typed.Status.Kopf.Progress, map[string]typedRecord{"b": {Retries: 2}})
}

func TestSmart_NoLegacyRecords(t *testing.T) {
	for name, obj := range map[string]client.Object{
		"a type without the field":  configMap(),
		"a type with it empty":      widgetWith(typedStatus{}),
		"a type with it raw":        widgetWith(rawStatus{}),
		"no status":                 withStatus(nil),
		"a status of another shape": withStatus(map[string]any{"kopf": "x"}),
		"progress of another shape": withStatus(statusOf(nil)),
		"a null for a record":       withStatus(statusOf(map[string]any{"a": nil})),
	} {
		t.Run("PROG-05 "+name, func(t *testing.T) {
			if record := mustFetch(t, progress.Smart(), obj, "a"); record != nil {
				t.Errorf("a record came from nowhere: %+v", *record)
			}
			mustPurge(t, progress.Smart(), obj, "a")
		})
	}
}

func TestSmart_SkipsTypesWithoutField(t *testing.T) {
	for _, without := range []client.Object{&unencodable[plainStatus]{}, &unencodable[otherStatus]{}} {
		if record, err := progress.Smart().Fetch(without, "a"); record != nil || err != nil {
			t.Errorf("PROG-05: fetched %v, %v, want nothing: %T has no place for records", record, err, without)
		}
		mustPurge(t, progress.Smart(), without, "a")
	}

	with := &unencodable[typedStatus]{}
	var unreadable *progress.UnreadableError
	if record, err := progress.Smart().Fetch(with, "a"); record != nil || !errors.As(err, &unreadable) || !errors.Is(err, errBoom) {
		t.Errorf("B-30: fetched %v, %v, want an error that says why", record, err)
	}
	if err := progress.Smart().Purge(with, "a"); !errors.Is(err, errBoom) {
		t.Errorf("Purge = %v, want an error that says why", err)
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
		place      string // named in the error; empty: no error
	}{
		{"B-30 broken in the status", broken, "", nil, "status.kopf.progress.a"},
		{"B-30 no object in the status", map[string]any{"a": "x"}, "", nil, "status.kopf.progress.a"},
		{"B-30 PROG-05 the annotation is sound: the status is not asked", broken, `{"retries":1}`, &progress.Record{Retries: 1}, ""},
		{"B-30 broken in both", broken, "{", nil, kopfPrefix + "/a"},
		{"B-30 the annotation is broken and so absent: the status counts, with a word about it", sound, "{", &progress.Record{Retries: 2}, kopfPrefix + "/a"},
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
				t.Errorf("error = %v, want one about %s", err, test.place)
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
			"ESS-08 PROG-05 the annotations and the field, with what is emptied by that",
			map[string]any{
				"metadata": essenceOf(kopfPrefix+"/a", "x")["metadata"],
				"status":   map[string]any{"kopf": map[string]any{"progress": map[string]any{"a": map[string]any{}}}},
			},
			map[string]any{},
		},
		{
			"ESS-08 what is beside the field stays; the touch field is not cleaned",
			map[string]any{"status": statusOf(map[string]any{"a": map[string]any{}})},
			map[string]any{"status": map[string]any{"phase": "up", "kopf": map[string]any{"dummy": "d"}}},
		},
		{
			"ESS-08 what is beside the emptied field stays",
			map[string]any{"status": map[string]any{"phase": "up", "kopf": map[string]any{"progress": map[string]any{}}}},
			map[string]any{"status": map[string]any{"phase": "up"}},
		},
		{"ESS-08 another shape", map[string]any{"status": map[string]any{"kopf": "x"}}, map[string]any{"status": map[string]any{"kopf": "x"}}},
		{"ESS-08 nothing to clear", map[string]any{"spec": "x"}, map[string]any{"spec": "x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			progress.Smart().Clear(test.essence)
			equal(t, "essence", test.essence, test.want)
		})
	}
}
