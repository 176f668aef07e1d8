package progress_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"started":"2020-12-31T23:59:59.123456+00:00","stopped":"2020-12-31T23:59:59.200000+00:00","purpose":"create","retries":1,"success":true,"failure":false}`,
		`{"started":"2020-12-31T23:59:59.123456+00:00","delayed":"2021-01-01T00:00:59.123456+00:00","retries":3,"message":"Not ready yet.","subrefs":["p/b","p/a","p/b"]}`,
		`{"started":"2020-12-31 23:59:59,123456789-05:30","delayed":null,"retries":2.0,"future":{"a":[1]}}`,
		`{"message":"ё<&>\ud83d\ude00\ud800","subrefs":[]}`,
		`{"started":"0001-01-01T00:00:00Z","delayed":"2020-12-31"}`,
		`{"retries":-1}`, `{"retries":9007199254740993}`, `{}`, `null`, `[]`, `{"retries":`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var record progress.Record
		if err := json.Unmarshal(text, &record); err != nil {
			return
		}
		encoded, err := record.MarshalJSON()
		if err != nil {
			t.Fatalf("Marshal of a decoded record failed: %v", err)
		}
		if i := slices.IndexFunc(encoded, func(b byte) bool { return b >= utf8.RuneSelf }); i >= 0 {
			t.Errorf("non-ASCII byte at %d: %q", i, encoded)
		}
		var again progress.Record
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatalf("Unmarshal of the encoded record %s failed: %v", encoded, err)
		}
		if diff := cmp.Diff(writable(record), again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("encoded as %s (-want +got):\n%s", encoded, diff)
		}
	})
}

// writable returns the record with the precision of the stored form: microseconds, and a set of sub-handlers.
func writable(r progress.Record) progress.Record {
	for _, at := range []*time.Time{&r.Started, &r.Stopped, &r.Delayed} {
		*at = at.Truncate(time.Microsecond)
	}
	r.Subrefs = slices.Compact(slices.Sorted(slices.Values(r.Subrefs)))
	return r
}

func FuzzKeys(f *testing.F) {
	for _, id := range []string{
		"", "create_fn", "create_fn/sub1", "outer.<locals>.inner", "lambda:/a/b.py:12", repeat("a", 46), repeat("a", 47),
		repeat("a", 63), repeat("a", 64), repeat("b/", 32), repeat("é", 63), repeat("日", 64), "\xff\xfe" + repeat("x", 70),
		"kopf-managed", "last-handled-configuration", "touch-dummy",
	} {
		for _, length := range []int{5, 16, 46, 55, 56, 63, 100} {
			f.Add(prefixOf(length), id)
		}
		f.Add("", id)
		f.Add("kopf.dev", id)
		f.Add(kopfPrefix, id)
	}
	record := progress.Record{Started: t0, Purpose: "create", Retries: 2, Message: "ё"}
	f.Fuzz(func(t *testing.T, prefix, id string) {
		if prefix == "" {
			prefix = progress.DefaultPrefix
		}
		s := progress.Annotations(prefix)
		if slices.Contains([]string{"kopf-managed", "last-handled-configuration", "touch-dummy"}, id) {
			if key, err := s.(progress.KeyChecker).Key(id); err == nil {
				t.Errorf("B-21: the reserved id %q has the key %q", id, key)
			}
			return
		}
		obj, twin := configMap(), configMap()
		mustStore(t, s, obj, id, record)
		mustStore(t, s, twin, id, record)
		equal(t, "keys for the same record", keysOf(obj), keysOf(twin))

		names := namesOf(obj, prefix)
		if len(names) < 1 || len(names) > 2 {
			t.Errorf("KEY-10: names = %q, want one or two", names)
		}
		for _, name := range names {
			if length := utf8.RuneCountInString(name); length > 63 && utf8.RuneCountInString(prefix) <= 55 {
				t.Errorf("KEY-05 KEY-06: length of the name %q = %d, want at most 63", name, length)
			}
			if utf8.ValidString(id) && !utf8.ValidString(name) {
				t.Errorf("KEY-09: name = %q, want complete characters", name)
			}
			if strings.ContainsAny(name, "/<>") {
				t.Errorf("KEY-04: name = %q, want unsafe characters replaced", name)
			}
		}
		if fetched := mustFetch(t, s, obj, id); fetched == nil {
			t.Error("PROG-01: Fetch returned no record")
		} else {
			equal(t, "PROG-01 record", *fetched, record)
		}
		mustPurge(t, s, obj, id)
		left := []string{prefix + "/kopf-managed"}
		if prefix == progress.DefaultPrefix {
			left = nil
		}
		equal(t, "PROG-20 KEY-21 remaining keys", keysOf(obj), left)
	})
}

func FuzzSweep(f *testing.F) {
	for _, id := range []string{"fn", "fn.a", "outer.<locals>.inner", repeat("a", 39), repeat("a", 56), repeat("a", 64), repeat("b/", 32), repeat("é", 63)} {
		for _, sub := range []string{"a", "spec.field", repeat("x", 20), repeat("c/", 40)} {
			for _, length := range []int{5, 16, 46, 55, 56, 63, 100} {
				f.Add(prefixOf(length), id, sub)
			}
		}
	}
	record := progress.Record{Started: t0, Purpose: "create"}
	f.Fuzz(func(t *testing.T, prefix, id, sub string) {
		if prefix == "" {
			prefix = progress.DefaultPrefix
		}
		if id == "" {
			if _, err := progress.Annotations(prefix).(progress.KeyChecker).Key(id); err == nil {
				t.Error("B-21: got no error for an empty id")
			}
			return
		}
		id = strings.ToValidUTF8(id, "_")
		for _, s := range []progress.Store{progress.Annotations(prefix), progress.AnnotationsV2(prefix), progress.Status("")} {
			for _, empty := range []client.Object{withStatus(nil), unstructuredReplicaSet()} {
				obj := empty.DeepCopyObject().(client.Object)
				mustStore(t, s, obj, id, record)
				mustStore(t, s, obj, id+"/"+sub, record)
				before := obj.DeepCopyObject().(client.Object)
				sweep(t, s, obj, "another", id)
				equal(t, "B-29 SE-20 remaining records of known handlers", jsonOf(t, obj), jsonOf(t, before))
			}
		}
	})
}

func unstructuredReplicaSet() client.Object {
	obj := withStatus(nil)
	obj.SetKind("ReplicaSet")
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}})
	return obj
}
