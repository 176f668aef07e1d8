package progress_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestAnnotations_StoresRecords(t *testing.T) {
	obj := configMap("example.com/other", "x")
	a := progress.Record{Started: t0, Purpose: "create", Retries: 1}
	b := progress.Record{Started: t0, Purpose: "update", Retries: 2}
	mustStore(t, store, obj, "a", a)
	mustStore(t, store, obj, "b", b)
	equal(t, "PROG-01 PROG-06 annotations", keysOf(obj), []string{"example.com/other", kopfPrefix + "/a", kopfPrefix + "/b"})
	equal(t, "PROG-01 record", *mustFetch(t, store, obj, "a"), a)
	equal(t, "PROG-01 other record", *mustFetch(t, store, obj, "b"), b)
	if record := mustFetch(t, store, obj, "c"); record != nil {
		t.Errorf("record of an unknown handler = %+v, want none", *record)
	}
	mustPurge(t, store, obj, "a")
	equal(t, "PROG-20 annotations", keysOf(obj), []string{"example.com/other", kopfPrefix + "/b"})
}

func TestAnnotations_FetchReadsFirstKeyWithValue(t *testing.T) {
	id := repeat("a", 47)
	v2, v1 := kopfPrefix+"/"+id, kopfPrefix+"/"+repeat("a", 39)+"-L2I79Q"
	const two, one = `{"retries":2}`, `{"retries":1}`
	for _, test := range []struct {
		name        string
		annotations []string
		want        int // number of retries; -1 for no record
	}{
		{"KEY-11 both keys", []string{v1, one, v2, two}, 2},
		{"KEY-11 only the newer key", []string{v2, two}, 2},
		{"KEY-11 MIG-06 only the older key", []string{v1, one}, 1},
		{"KEY-11 the value of the newer key is null", []string{v1, one, v2, "null"}, 1},
		{"KEY-11 the value of the newer key is null with spaces", []string{v1, one, v2, " null\n"}, 1},
		{"KEY-11 the value of the older key is null", []string{v1, "null", v2, two}, 2},
		{"KEY-11 the values of both keys are null", []string{v1, "null", v2, "null"}, -1},
		{"KEY-11 no key", nil, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := -1
			if record := mustFetch(t, store, configMap(test.annotations...), id); record != nil {
				got = record.Retries
			}
			equal(t, "retries", got, test.want)
		})
	}
}

func TestAnnotations_WritesAndPurgesAllKeys(t *testing.T) {
	id := repeat("a", 47)
	v2, v1 := kopfPrefix+"/"+id, kopfPrefix+"/"+repeat("a", 39)+"-L2I79Q"
	obj := configMap(v1, `{"retries":1}`)
	mustStore(t, store, obj, id, progress.Record{Retries: 5})
	equal(t, "KEY-11 MIG-06 keys", keysOf(obj), []string{v1, v2})
	equal(t, "KEY-11 MIG-06 values", obj.Annotations[v1], obj.Annotations[v2])
	mustPurge(t, store, obj, id)
	equal(t, "KEY-11 MIG-06 remaining keys", keysOf(obj), []string(nil))
}

func TestAnnotations_UnreadableRecords(t *testing.T) {
	long := repeat("a", 47)
	for _, test := range []struct {
		name, id    string
		annotations []string
		place       string
		want        *progress.Record
	}{
		{
			name: "B-30 invalid JSON", id: "a", annotations: []string{kopfPrefix + "/a", "{"}, place: kopfPrefix + "/a",
		},
		{
			name: "B-30 an empty value", id: "a", annotations: []string{kopfPrefix + "/a", ""}, place: kopfPrefix + "/a",
		},
		{
			name: "B-30 not an object", id: "a", annotations: []string{kopfPrefix + "/a", "[]"}, place: kopfPrefix + "/a",
		},
		{
			name: "B-30 KEY-11 the value of the newer key is unreadable: the older key is used", id: long,
			annotations: []string{kopfPrefix + "/" + long, "{", kopfPrefix + "/" + repeat("a", 39) + "-L2I79Q", `{"retries":1}`},
			place:       kopfPrefix + "/" + long, want: &progress.Record{Retries: 1},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			record, err := store.Fetch(configMap(test.annotations...), test.id)
			equal(t, "record", record, test.want)
			var unreadable *progress.UnreadableError
			if !errors.As(err, &unreadable) || !strings.Contains(unreadable.Place, test.place) {
				t.Fatalf("error = %v, want an error about %s", err, test.place)
			}
			if unreadable.Unwrap() == nil || !strings.Contains(err.Error(), test.place) {
				t.Errorf("error = %v, want an error with the key and the cause", err)
			}
		})
	}
}

func TestAnnotations_Marker(t *testing.T) {
	for _, test := range []struct {
		name, prefix string
		before       []string
		want         string // value of the marker; empty for no marker
	}{
		{"KEY-20 custom prefix", ownPrefix, nil, "yes"},
		{"KEY-20 a prefix below kopf's domain", "op.kopf.zalando.org", nil, "yes"},
		{"KEY-20 a prefix that begins with kopf", "kopfish.example.com", nil, "yes"},
		{"KEY-20 an existing value is kept", ownPrefix, []string{ownPrefix + "/kopf-managed", "sure"}, "sure"},
		{"KEY-21 kopf's own prefix", kopfPrefix, nil, ""},
		{"KEY-21 SE-24 a prefix that is similar to kopf's", "kopf.dev", nil, "yes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := test.prefix + "/kopf-managed"
			obj := configMap(test.before...)
			mustStore(t, progress.Annotations(test.prefix), obj, "a", progress.Record{})
			equal(t, "marker after Store", obj.Annotations[key], test.want)
			mustPurge(t, progress.Annotations(test.prefix), obj, "a")
			equal(t, "KEY-21 marker after Purge", obj.Annotations[key], test.want)

			obj = configMap(test.before...)
			progress.AnnotationBaseline(test.prefix).Store(obj, []byte("{}"))
			equal(t, "marker of the baseline", obj.Annotations[key], test.want)
		})
	}
}

func TestAnnotations_RemovesTouchWithNextWrite(t *testing.T) {
	owned := func() client.Object {
		set := ownedReplicaSet("ReplicaSet", "Deployment")
		set.SetAnnotations(map[string]string{kopfPrefix + "/touch-dummy-ofDRS": "now", kopfPrefix + "/a-ofDRS": "{}"})
		return set
	}
	plain := func() client.Object { return configMap(kopfPrefix+"/touch-dummy", "now", kopfPrefix+"/a", "{}") }
	for _, test := range []struct {
		name string
		obj  client.Object
		act  func(t *testing.T, obj client.Object)
		want []string
	}{
		{"DLY-03 B-03 Store", plain(), func(t *testing.T, obj client.Object) {
			mustStore(t, store, obj, "a", progress.Record{})
		}, []string{"a"}},
		{"DLY-03 B-03 Purge", plain(), func(t *testing.T, obj client.Object) { mustPurge(t, store, obj, "a") }, nil},
		{"DLY-03 B-03 Store of the baseline", plain(), func(_ *testing.T, obj client.Object) {
			progress.AnnotationBaseline("").Store(obj, []byte("{}"))
		}, []string{"a", "last-handled-configuration"}},
		{"DLY-08 KEY-13 the touch of a ReplicaSet", owned(), func(t *testing.T, obj client.Object) { mustPurge(t, store, obj, "a") }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.act(t, test.obj)
			equal(t, "annotations", namesOf(test.obj, kopfPrefix), test.want)
		})
	}
}

func TestStores_DifferentPrefixes(t *testing.T) {
	one, other := progress.Annotations("one.example.com"), progress.Annotations("other.example.com")
	obj := configMap()
	mustStore(t, one, obj, "a", progress.Record{Retries: 1})
	if record := mustFetch(t, other, obj, "a"); record != nil {
		t.Errorf("B-34: record of the other operator = %+v, want none", *record)
	}
	mustStore(t, other, obj, "a", progress.Record{Retries: 2})
	mustPurge(t, one, obj, "a")
	equal(t, "B-34 retries of the other operator", mustFetch(t, other, obj, "a").Retries, 2)
}

// Copies of cached objects may share maps with the cache.
func TestStores_DoNotModifySharedMaps(t *testing.T) {
	stores := map[string]progress.Store{"annotations": progress.Annotations(ownPrefix), "smart": progress.Smart()}
	for name, s := range stores {
		t.Run(name, func(t *testing.T) {
			shared := configMap(ownPrefix+"/a", "{}", kopfPrefix+"/a", "{}", kopfPrefix+"/touch-dummy", "now")
			before := shared.DeepCopy()
			obj := *shared
			mustStore(t, s, &obj, "a", progress.Record{Retries: 1})
			obj = *shared
			mustPurge(t, s, &obj, "a")
			obj = *shared
			progress.AnnotationBaseline("").Store(&obj, []byte("{}"))
			equal(t, "cached object", shared, before)
		})
	}
}

func TestStores_PurgeWithoutRecords(t *testing.T) {
	stores := map[string]progress.Store{"annotations": progress.Annotations(ownPrefix), "smart": progress.Smart()}
	objects := map[string]client.Object{
		"typed, without annotations":   &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}},
		"typed, with annotations":      configMap("example.com/a", "x"),
		"untyped, without annotations": withStatus(map[string]any{"a": "b"}),
		"untyped, without a status":    &unstructured.Unstructured{Object: map[string]any{"kind": "A", "metadata": map[string]any{}}},
	}
	for storeName, s := range stores {
		for objName, obj := range objects {
			t.Run("PROG-20 "+storeName+" "+objName, func(t *testing.T) {
				got := obj.DeepCopyObject().(client.Object)
				mustPurge(t, s, got, "a")
				equal(t, "object", jsonOf(t, got), jsonOf(t, obj))
			})
		}
	}
}

func TestAnnotations_Clear(t *testing.T) {
	for _, test := range []struct {
		name          string
		store         progress.Store
		essence, want map[string]any
	}{
		{
			name:    "ESS-08 all annotations with the prefix",
			store:   progress.Annotations(ownPrefix),
			essence: essenceOf(ownPrefix+"/a", "x", ownPrefix+"/touch-dummy", "x", ownPrefix+"/kopf-managed", "yes", "example.com/a", "x"),
			want:    essenceOf("example.com/a", "x"),
		},
		{
			name:    "ESS-08 B-34 other prefixes are kept, including similar prefixes",
			store:   progress.Annotations("example.com"),
			essence: essenceOf("example.com/a", "x", "op.example.com/a", "x", "example.community/a", "x", "example.com", "x"),
			want:    essenceOf("op.example.com/a", "x", "example.community/a", "x", "example.com", "x"),
		},
		{
			name:    "ESS-06 empty parents are removed",
			store:   progress.Annotations(""),
			essence: map[string]any{"spec": map[string]any{}, "metadata": essenceOf(kopfPrefix+"/a", "x")["metadata"]},
			want:    map[string]any{"spec": map[string]any{}},
		},
		{
			name:  "ESS-06 non-empty parents are kept",
			store: progress.Annotations(""),
			essence: map[string]any{"metadata": map[string]any{
				"labels": map[string]any{"l": "v"}, "annotations": map[string]any{kopfPrefix + "/a": "x"},
			}},
			want: map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "v"}}},
		},
		{
			name: "ESS-06 nothing to clear", store: progress.Annotations(""),
			essence: map[string]any{"spec": map[string]any{"a": "b"}}, want: map[string]any{"spec": map[string]any{"a": "b"}},
		},
		{
			name: "ESS-06 metadata that is not a map is kept", store: progress.Annotations(""),
			essence: map[string]any{"metadata": "x"}, want: map[string]any{"metadata": "x"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.store.Clear(test.essence)
			equal(t, "essence", test.essence, test.want)
		})
	}
}

// essenceOf returns an essence with annotations, given as key, value, key, value...
func essenceOf(annotations ...string) map[string]any {
	all := map[string]any{}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	return map[string]any{"metadata": map[string]any{"annotations": all}}
}
