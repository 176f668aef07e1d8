package progress_test

import (
	"errors"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// leftover is a record in kopf's format.
const leftover = `{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"update","retries":1,"success":false,"failure":false}`

func sweep(t testing.TB, s progress.Store, obj client.Object, known ...string) {
	t.Helper()
	if err := s.(progress.Sweeper).Sweep(obj, known); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
}

func TestSweep_Keys(t *testing.T) {
	const long = "handler_with_a_really_long_name_that_exceeds_the_limit/spec.field.sub"
	longPrefix := prefixOf(70)
	plain := func() client.Object { return configMap() }
	owned := func() client.Object { return ownedReplicaSet("ReplicaSet", "Deployment") }
	for _, test := range []struct {
		name, prefix string
		obj          func() client.Object
		annotation   string
		known        []string
		stays        bool
	}{
		{"SE-20 an unknown handler", "", plain, "gone", []string{"fn"}, false},
		{"SE-20 no known handlers", "", plain, "gone", nil, false},
		{"SE-20 a known handler", "", plain, "fn", []string{"other", "fn"}, true},
		{"SE-20 a known field handler", "", plain, "fn.spec.a", []string{"fn/spec.a"}, true},
		{"SE-20 a sub-handler", "", plain, "fn.a", []string{"fn"}, true},
		{"SE-20 a sub-handler of a sub-handler", "", plain, "fn.a.b", []string{"fn"}, true},
		{"SE-20 a sub-handler of an unknown handler", "", plain, "gone.a", []string{"fn"}, false},
		{"SE-20 an unknown handler with the prefix of a known one", "", plain, "fn2", []string{"fn"}, false},
		{"SE-20 an unknown parent of a known handler", "", plain, "fn", []string{"fn/a"}, false},
		{"SE-20 a custom prefix", ownPrefix, plain, "gone", []string{"fn"}, false},

		{"KEY-12 the newer key of an unknown long id", "", plain, repeat("a", 56) + "-5Keq3A", []string{"fn"}, false},
		{"KEY-12 the older key of an unknown long id", "", plain, repeat("a", 39) + "-5Keq3A", []string{"fn"}, false},
		{"KEY-12 the newer key of a known long id", "", plain, repeat("a", 56) + "-5Keq3A", []string{repeat("a", 64)}, true},
		{"KEY-12 the older key of a known long id", "", plain, repeat("a", 39) + "-5Keq3A", []string{repeat("a", 64)}, true},
		{"KEY-05 a shortened sub-handler of a known handler", "", plain, "handler_with_a_really_long_name_that_exceeds_the_limit.s-9VPZQA",
			[]string{"handler_with_a_really_long_name_that_exceeds_the_limit"}, true},
		{"KEY-06 a sub-handler of a known handler whose name is truncated", "", plain, "handler_with_a_really_long_name_that_ex-sxrJZw",
			[]string{"handler_with_a_really_long_name_that_exceeds_the_limit"}, true},
		{"KEY-05 a shortened sub-handler of an unknown handler", "", plain, "handler_with_a_really_long_name_that_exceeds_the_limit.s-9VPZQA", []string{"fn", "handler/x"}, false},
		{"KEY-06 a truncated sub-handler of an unknown handler, older key", "", plain, "handler_with_a_really_long_name_that_ex-sxrJZw", []string{"fn", "handler/x"}, false},
		{"KEY-05 both keys of a known handler", "", plain, "handler_with_a_really_long_name_that_ex-sxrJZw", []string{long}, true},
		{"KEY-05 a short key is not truncated", "", plain, "update-config", []string{"update-status"}, false},
		{"KEY-15 a long prefix truncates short keys", longPrefix, plain, "aaaaa-TJFdIg", []string{repeat("a", 20)}, true},
		{"KEY-15 a long prefix, an unknown handler", longPrefix, plain, "aaaaa-TJFdIg", []string{"fn"}, false},

		{"KEY-13 an owned ReplicaSet", "", owned, "gone-ofDRS", []string{"fn"}, false},
		{"KEY-13 an owned ReplicaSet, known handler", "", owned, "fn-ofDRS", []string{"fn"}, true},
		{"KEY-13 an owned ReplicaSet, sub-handler", "", owned, "fn.a-ofDRS", []string{"fn"}, true},
		{"KEY-13 an owned ReplicaSet, record of its Deployment", "", owned, "gone", []string{"fn"}, true},
		{"KEY-13 a Deployment, record of its ReplicaSet", "", plain, "gone-ofDRS", []string{"fn"}, true},

		{"KEY-01 a reserved name: the baseline", "", plain, "last-handled-configuration", nil, true},
		{"KEY-13 the baseline of an owned ReplicaSet", "", owned, "last-handled-configuration-ofDRS", nil, true},
		{"KEY-06 the older key of the baseline", "a-very-long-prefix-of-more-than-36-chars.example.com", plain, "las-a.A3qw", nil, true},
		{"KEY-20 a reserved name: the marker", ownPrefix, plain, "kopf-managed", nil, true},
		{"DLY-03 a reserved name: the touch", "", plain, "touch-dummy", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			prefix := test.prefix
			if prefix == "" {
				prefix = kopfPrefix
			}
			obj, key := test.obj(), prefix+"/"+test.annotation
			obj.SetAnnotations(map[string]string{key: leftover, "example.com/" + test.annotation: leftover})
			sweep(t, progress.Annotations(test.prefix), obj, test.known...)
			if got := slices.Contains(keysOf(obj), key); got != test.stays {
				t.Errorf("B-29: record remains = %v, want %v", got, test.stays)
			}
			if !slices.Contains(keysOf(obj), "example.com/"+test.annotation) {
				t.Error("B-34: an annotation with another prefix was removed")
			}
		})
	}
}

// All ids are unknown. Only the value identifies a record.
func TestSweep_Values(t *testing.T) {
	for _, test := range []struct {
		name, value string
		stays       bool
	}{
		{"PROG-02 a record", leftover, false},
		{"PROG-02 a record with nulls", `{"started":"2020-12-31T23:59:59+00:00","stopped":null,"purpose":"create","retries":0,"success":false,"failure":false,"message":null}`, false},
		{"PROG-12 a finished record", `{"started":"2020-12-31T23:59:59+00:00","purpose":"delete","retries":1,"success":true,"failure":false}`, false},
		{"PROG-14 a record with few fields", `{"started":"2020-12-31T23:59:59Z","purpose":"resume"}`, false},
		{"PROG-14 a record with only counts", `{"purpose":"create","retries":2,"success":false,"failure":false}`, false},
		{"MIG-07 a record of a newer version", `{"started":"2020-12-31T23:59:59Z","purpose":"create","future":1}`, false},

		{"SE-20 a record without a purpose", `{"started":"2020-12-31T23:59:59Z","retries":1,"success":false,"failure":false}`, true},
		{"SE-20 a custom cause", `{"started":"2020-12-31T23:59:59Z","purpose":"generation-7","retries":1,"success":false,"failure":false}`, true},
		{"SE-20 a purpose in another case", `{"started":"2020-12-31T23:59:59Z","purpose":"Update","retries":1,"success":false,"failure":false}`, true},
		{"SE-20 only a purpose", `{"purpose":"update"}`, true},
		{"SE-20 too few fields", `{"purpose":"update","retries":1,"success":false}`, true},
		{"SE-20 keys in another case", `{"Started":"2020-12-31T23:59:59Z","Purpose":"update","Retries":1,"Success":false,"Failure":false}`, true},
		{"B-30 an unreadable record", `{"started":"some day","purpose":"update","retries":1,"success":false,"failure":false}`, true},
		{"SE-20 another object", `{"a":"b"}`, true},
		{"SE-20 not an object", `[1]`, true},
		{"SE-20 null", `null`, true},
		{"SE-20 invalid JSON", `update`, true},
		{"SE-20 an empty value", ``, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := configMap(kopfPrefix+"/gone", test.value)
			sweep(t, store, obj, "fn")
			equal(t, "B-29 annotation remains", len(obj.Annotations) == 1, test.stays)
		})
	}
}

func TestSweep_Status(t *testing.T) {
	for name, obj := range fieldObjects() {
		t.Run(name, func(t *testing.T) {
			s := progress.Status("")
			ids := []string{"fn", "fn/a", "fn/a/b", "gone", "gone/a", "fn2", "fn.a", "fn-ofDRS"}
			for _, id := range append(ids, "own") {
				purpose := "update"
				if id == "own" {
					purpose = "generation-7"
				}
				mustStore(t, s, obj, id, progress.Record{Started: t0, Purpose: purpose})
			}
			sweep(t, s, obj, "fn", "other")
			var left []string
			for _, id := range append(ids, "own") {
				if mustFetch(t, s, obj, id) != nil {
					left = append(left, id)
				}
			}
			equal(t, "B-29 SE-20 PROG-07 the remaining records", left, []string{"fn", "fn/a", "fn/a/b", "own"})
		})
	}
}

func TestSweep_Multi(t *testing.T) {
	known := progress.Record{Started: t0, Purpose: "create"}
	for name, s := range map[string]progress.Store{
		"PROG-05 smart": progress.Smart(),
		"PROG-08 multi": progress.Multi(basicStore{store}, progress.Annotations(""), progress.Status("")),
	} {
		t.Run("B-29 "+name, func(t *testing.T) {
			obj := withStatus(nil)
			for _, part := range []progress.Store{progress.Annotations(""), progress.Status("")} {
				mustStore(t, part, obj, "fn", known)
				mustStore(t, part, obj, "gone", known)
			}
			sweep(t, s, obj, "fn")
			equal(t, "annotations", namesOf(obj, kopfPrefix), []string{"fn"})
			want := withStatus(nil)
			mustStore(t, progress.Status(""), want, "fn", known)
			equal(t, "status", obj.Object["status"], want.Object["status"])
		})
	}
}

// Sweep removes both keys of an unknown id, because an older operator would read the other key.
func TestSweep_RemovesKeysOfBothGenerations(t *testing.T) {
	obj := configMap()
	mustStore(t, store, obj, repeat("a/", 40), progress.Record{Started: t0, Purpose: "update"})
	equal(t, "KEY-10 number of keys", len(obj.Annotations), 2)
	sweep(t, store, obj, "fn")
	equal(t, "B-29 MIG-06 remaining keys", keysOf(obj), []string(nil))
}

func TestSweep_KeepsKeysOfOlderGeneration(t *testing.T) {
	id := repeat("a", 47)
	obj := configMap()
	mustStore(t, store, obj, id, progress.Record{Started: t0, Purpose: "update"})
	sweep(t, progress.AnnotationsV2(""), obj, id)
	equal(t, "KEY-16 number of remaining annotations", len(obj.Annotations), 2)
}

func TestSweep_WithoutRecords(t *testing.T) {
	stores := []progress.Store{progress.Annotations(""), progress.Status(""), progress.Smart()}
	for name, obj := range map[string]client.Object{
		"without annotations": configMap(), "without a status": withStatus(nil), "without fields for records": configMap("a", "b"),
		"with other values": withStatus(statusOf(map[string]any{"fn": map[string]any{"purpose": "update", "started": "x"}, "a": "b"})),
		"typed":             widgetWith(wholeStatus{Phase: "up"}), "a status of another shape": withStatus(map[string]any{"kopf": "x"}),
		"touched": configMap(kopfPrefix+"/touch-dummy", "now"),
	} {
		for _, s := range stores {
			before := jsonOf(t, obj.DeepCopyObject().(client.Object))
			sweep(t, s, obj, "other")
			equal(t, "B-29 "+name, jsonOf(t, obj), before)
		}
	}
}

func TestSweep_Errors(t *testing.T) {
	for _, s := range []progress.Store{progress.Status(""), progress.Smart(), progress.Multi(progress.Status(""))} {
		if err := s.(progress.Sweeper).Sweep(&unencodable[wholeStatus]{}, nil); !errors.Is(err, errBoom) {
			t.Errorf("%T: Sweep = %v, want an error", s, err)
		}
	}
}
