package progress_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const (
	kopfPrefix = "kopf.zalando.org"
	ownPrefix  = "my-operator.example.com"
)

// storedNames stores a record and returns the names of its annotations.
func storedNames(t *testing.T, obj client.Object, prefix, id string) []string {
	t.Helper()
	mustStore(t, progress.Annotations(prefix), obj, id, progress.Record{Retries: 1})
	return namesOf(obj, prefix)
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// kopf 1.44.6 computed the expected keys. If both generations have different keys, the newer key is first.
func TestKeys_EqualKopf(t *testing.T) {
	const long = "handler_with_a_really_long_name_that_exceeds_the_limit/spec.field.sub"
	for _, test := range []struct {
		name, prefix, id string
		want             []string
	}{
		{"KEY-04 KEY-10 a short id has one key", kopfPrefix, "create_fn", []string{"create_fn"}},
		{"KEY-04 slashes become dots", kopfPrefix, "create_fn/sub1", []string{"create_fn.sub1"}},
		{"KEY-04 dots of fields are kept", kopfPrefix, "fn/spec.field", []string{"fn.spec.field"}},
		{"KEY-04 angle brackets become underscores", kopfPrefix, "outer.<locals>.inner", []string{"outer._locals_.inner"}},
		{"KEY-04 nothing else is replaced", kopfPrefix, "lambda:/a/b.py:12", []string{"lambda:.a.b.py:12"}},

		{"KEY-12 up to 46 characters have one key", kopfPrefix, repeat("a", 46), []string{repeat("a", 46)}},
		{"KEY-12 SE-55 47 characters are shortened in v1", kopfPrefix, repeat("a", 47), []string{repeat("a", 47), repeat("a", 39) + "-L2I79Q"}},
		{"KEY-12 63 characters are shortened in v1", kopfPrefix, repeat("a", 63), []string{repeat("a", 63), repeat("a", 39) + "-LcrRHA"}},
		{"KEY-12 64 characters are shortened in both", kopfPrefix, repeat("a", 64), []string{repeat("a", 56) + "-5Keq3A", repeat("a", 39) + "-5Keq3A"}},
		{"KEY-12 63 characters, another letter", kopfPrefix, repeat("x", 63), []string{repeat("x", 63), repeat("x", 39) + "-GINbRg"}},
		{"KEY-12 64 characters, another letter", kopfPrefix, repeat("x", 64), []string{repeat("x", 56) + "-SItAqA", repeat("x", 39) + "-SItAqA"}},

		{"KEY-05 KEY-06 v2 hashes the raw id, v1 the safe name", kopfPrefix, repeat("b/", 32), []string{
			repeat("b.", 28) + "-6vSfIQ", repeat("b.", 19) + "b" + "-1D6S2w"}},
		{"KEY-05 KEY-06 a long id with a field", kopfPrefix, long, []string{
			"handler_with_a_really_long_name_that_exceeds_the_limit.s-9VPZQA",
			"handler_with_a_really_long_name_that_ex-sxrJZw"}},
		{"KEY-06 v1 counts replaced brackets", kopfPrefix, "outer.<locals>." + repeat("x", 40), []string{
			"outer._locals_." + repeat("x", 40), "outer._locals_." + repeat("x", 24) + "-VkbZ9g"}},
		{"KEY-09 the limit counts characters", kopfPrefix, repeat("é", 47), []string{repeat("é", 47), repeat("é", 39) + "-xD7SQA"}},
		{"KEY-09 keys are cut between characters", kopfPrefix, repeat("é", 64), []string{repeat("é", 56) + "-L1FX4A", repeat("é", 39) + "-L1FX4A"}},

		{"KEY-06 a custom prefix changes the limit", ownPrefix, repeat("x", 40), []string{repeat("x", 40), repeat("x", 32) + "-tEokcg"}},
		{"KEY-06 a custom prefix, another letter", ownPrefix, repeat("y", 40), []string{repeat("y", 40), repeat("y", 32) + "-VZlvhw"}},
		{"KEY-07 slashes of base64 become dots", ownPrefix, repeat("fn", 323), []string{repeat("fn", 28) + "-Az-r.g", repeat("fn", 16) + "-Az-r.g"}},
		{"KEY-06 a long prefix and an id of the maximum length", "lengthy-operator-name-to-hit-63-chars.example.com", "update/sub1", []string{"update.sub1"}},

		{"KEY-15 prefix of 54: one character remains", prefixOf(54), "create_fn", []string{"create_fn", "c-AZjFuA"}},
		{"KEY-15 prefix of 55: no valid shortened key", prefixOf(55), "create_fn", []string{"create_fn"}},
		{"KEY-15 prefix of 56: cut from the end, to the maximum length", prefixOf(56), repeat("a", 57), []string{repeat("a", 57), repeat("a", 56) + "-3v.fnw"}},
		{"KEY-15 prefix of 56: cut from the end, above the maximum length", prefixOf(56), repeat("a", 63), []string{repeat("a", 63)}},
		{"KEY-15 prefix of 56: cut from the end", prefixOf(56), "create_fn", []string{"create_fn", "create_f-AZjFuA"}},
		{"KEY-15 prefix of 60: cut from the end", prefixOf(60), "create_fn", []string{"create_fn", "crea-AZjFuA"}},
		{"KEY-15 prefix of 70: cut beyond the beginning", prefixOf(70), "create_fn", []string{"create_fn"}},
		{"KEY-15 prefix of 70: cut from the end", prefixOf(70), repeat("a", 20), []string{repeat("a", 20), "aaaaa-TJFdIg"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			slices.Sort(test.want)
			equal(t, "names", storedNames(t, configMap(), test.prefix, test.id), test.want)
		})
	}
}

// prefixOf returns a prefix of the given length.
func prefixOf(length int) string { return repeat("p", length-len(".com")) + ".com" }

func TestKeys_OwnedReplicaSet(t *testing.T) {
	typed := ownedReplicaSet("", "Deployment") // typed clients drop the kind
	second := ownedReplicaSet("ReplicaSet", "Node")
	second.OwnerReferences = append(second.OwnerReferences, metav1.OwnerReference{Kind: "Deployment"})
	for _, test := range []struct {
		name string
		obj  client.Object
		id   string
		want []string
	}{
		{"KEY-13 a ReplicaSet of a Deployment is marked", ownedReplicaSet("ReplicaSet", "Deployment"), "create_fn", []string{"create_fn-ofDRS"}},
		{"KEY-13 a ReplicaSet with several owners", second, "create_fn", []string{"create_fn-ofDRS"}},
		{"KEY-13 the mark is added before the shortening", ownedReplicaSet("ReplicaSet", "Deployment"), repeat("a", 57), []string{
			repeat("a", 39) + "-wb2AsA", repeat("a", 57) + "-ofDRS"}},
		{"KEY-13 a typed ReplicaSet without a kind", typed, "create_fn", []string{"create_fn-ofDRS"}},
		{"KEY-14 a ReplicaSet of another owner is not marked", ownedReplicaSet("ReplicaSet", "Rollout"), "create_fn", []string{"create_fn"}},
		{"KEY-14 another kind of a Deployment is not marked", ownedReplicaSet("Pod", "Deployment"), "create_fn", []string{"create_fn"}},
		{"KEY-14 a kind in another case is not marked", ownedReplicaSet("replicaset", "Deployment"), "create_fn", []string{"create_fn"}},
		{"KEY-14 an owner's kind in another case is not marked", ownedReplicaSet("ReplicaSet", "deployment"), "create_fn", []string{"create_fn"}},
		{"KEY-14 a ReplicaSet without an owner is not marked", &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{Kind: "ReplicaSet"}}, "create_fn", []string{"create_fn"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "names", storedNames(t, test.obj, kopfPrefix, test.id), test.want)
		})
	}
}

func TestKeys_OwnedReplicaSetDiffersFromDeployment(t *testing.T) {
	store := progress.Annotations("")
	set := ownedReplicaSet("ReplicaSet", "Deployment")
	set.SetAnnotations(map[string]string{kopfPrefix + "/fn": `{"retries":3}`}) // Kubernetes copies these annotations from the Deployment
	if record := mustFetch(t, store, set, "fn"); record != nil {
		t.Errorf("KEY-13: record of the ReplicaSet = %+v, want none, because it belongs to the Deployment", *record)
	}
	mustPurge(t, store, set, "fn")
	equal(t, "KEY-13: remaining annotations", keysOf(set), []string{kopfPrefix + "/fn"})
}

func TestAnnotationsV2_Keys(t *testing.T) {
	id := repeat("a", 47)
	v2, v1 := kopfPrefix+"/"+id, kopfPrefix+"/"+repeat("a", 39)+"-L2I79Q"
	s := progress.AnnotationsV2("")
	obj := configMap(v1, `{"retries":1}`)
	if record := mustFetch(t, s, obj, id); record != nil {
		t.Errorf("KEY-16: record under the older key = %+v, want none", *record)
	}
	mustStore(t, s, obj, id, progress.Record{Retries: 2})
	equal(t, "KEY-16 retries under the newer key", mustFetch(t, s, obj, id).Retries, 2)
	equal(t, "KEY-16 value of the older key", obj.Annotations[v1], `{"retries":1}`)
	equal(t, "KEY-16 retries read by another store", mustFetch(t, store, obj, id).Retries, 2)
	mustPurge(t, s, obj, id)
	equal(t, "KEY-16 keys after Purge", keysOf(obj), []string{v1})

	key, err := s.(progress.KeyChecker).Key(id)
	if key != v2 || err != nil {
		t.Errorf("KEY-16: Key = %q, %v, want %q", key, err, v2)
	}
	equal(t, "KEY-16 keys of a short id", keysStoredBy(t, s, "fn"), keysStoredBy(t, store, "fn"))
	equal(t, "KEY-16 KEY-20 keys with a custom prefix", keysStoredBy(t, progress.AnnotationsV2(ownPrefix), repeat("x", 40)),
		[]string{ownPrefix + "/kopf-managed", ownPrefix + "/" + repeat("x", 40)})
	essence := essenceOf(v1, "{}", v2, "{}")
	s.Clear(essence)
	equal(t, "KEY-16 ESS-08 essence without the prefix", essence, map[string]any{})
}

func keysStoredBy(t *testing.T, s progress.Store, id string) []string {
	t.Helper()
	obj := configMap()
	mustStore(t, s, obj, id, progress.Record{})
	return keysOf(obj)
}

func TestAnnotationBaselineV2_Keys(t *testing.T) {
	prefix := "a-very-long-prefix-of-more-than-36-chars.example.com"
	v2, v1 := prefix+"/last-handled-configuration", prefix+"/las-a.A3qw"
	baseline := progress.AnnotationBaselineV2(prefix)
	obj := configMap(v1, `{"v":1}`)
	if got := baseline.Fetch(obj); got != nil {
		t.Errorf("KEY-16: baseline under the older key = %q, want none", got)
	}
	baseline.Store(obj, []byte(`{"v":2}`))
	equal(t, "KEY-16 value of the newer key", obj.Annotations[v2], `{"v":2}`+"\n")
	equal(t, "KEY-16 value of the older key", obj.Annotations[v1], `{"v":1}`)
	if err := baseline.(progress.Checker).Check(); err != nil {
		t.Errorf("KEY-16: Check = %v, want no error", err)
	}
	essence := essenceOf(v2, "{}", "a", "b")
	baseline.Clear(essence)
	equal(t, "KEY-16 ESS-07 essence after Clear", essence, essenceOf("a", "b"))
}

func TestKey_DefaultPrefix(t *testing.T) {
	obj := configMap()
	mustStore(t, progress.Annotations(""), obj, "fn", progress.Record{})
	equal(t, "KEY-01 annotations", keysOf(obj), []string{"kopf.zalando.org/fn"})
}

func TestKeyChecker(t *testing.T) {
	for _, test := range []struct {
		name, prefix, id string
		want             string // the full key
		problem          string // part of the error
	}{
		{name: "KEY-01 an id", id: "fn/spec.a", want: kopfPrefix + "/fn.spec.a"},
		{name: "KEY-05 a long id", id: repeat("a", 64), want: kopfPrefix + "/" + repeat("a", 56) + "-5Keq3A"},
		{name: "KEY-01 a custom prefix", prefix: ownPrefix, id: "fn", want: ownPrefix + "/fn"},
		{name: "B-21 an empty id", id: "", problem: "empty"},
		{name: "B-21 KEY-04 a character that annotations cannot have", id: "lambda:fn", problem: `"lambda:fn"`},
		{name: "B-21 KEY-04 a letter that annotations cannot have", id: "größe", problem: "annotation"},
		{name: "B-21 a slash at the end", id: "fn/", problem: "annotation"},
		{name: "B-21 the name of the baseline", id: "last-handled-configuration", problem: "reserved by the framework"},
		{name: "B-21 the name of the marker", prefix: ownPrefix, id: "kopf-managed", problem: "reserved by the framework"},
		{name: "B-21 a request to call a handler", id: "retry/provision", problem: "reserved by the framework"},
		{name: "B-21 the answer to a request", id: "retried", problem: "reserved by the framework"},
		{name: "B-21 the name of kopf's touch", id: "touch-dummy", problem: "reserved by the framework"},
		{name: "KEY-03 a prefix that annotations cannot have", prefix: repeat("p", 250) + ".com", id: "fn", problem: "annotation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			key, err := progress.Annotations(test.prefix).(progress.KeyChecker).Key(test.id)
			if test.problem == "" {
				if err != nil {
					t.Errorf("Key(%q) returned the error %v, want none", test.id, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("Key(%q) = %v, want an error with %q", test.id, err, test.problem)
			}
			if key != test.want {
				t.Errorf("Key(%q) = %q, want %q", test.id, key, test.want)
			}
		})
	}
}

func TestSmart_Key(t *testing.T) {
	checker := progress.Smart().(progress.KeyChecker)
	if key, err := checker.Key("fn/a"); key != kopfPrefix+"/fn.a" || err != nil {
		t.Errorf("Key = %q, %v, want %q", key, err, kopfPrefix+"/fn.a")
	}
	if _, err := checker.Key("a:b"); err == nil {
		t.Error("B-21: got no error for an invalid id")
	}
}

// A single invalid key makes the API server reject the whole object.
func TestKeyChecker_AcceptsOnlyKeysValidForTheServer(t *testing.T) {
	for _, length := range []int{16, 40, 54, 55, 56, 60, 63, 70, 100} {
		for _, id := range []string{"fn", "create_fn", repeat("a", 46), repeat("a", 63), repeat("a", 80), repeat("a/b", 60)} {
			prefix := prefixOf(length)
			store := progress.Annotations(prefix)
			if _, err := store.(progress.KeyChecker).Key(id); err != nil {
				continue // Key rejected the id, which is also valid
			}
			var refused []string
			for _, name := range storedNames(t, configMap(), prefix, id) {
				if len(validation.IsQualifiedName(prefix+"/"+name)) > 0 {
					refused = append(refused, name)
				}
			}
			if len(refused) > 0 {
				t.Errorf("KEY-03 KEY-15 prefix of %d, id of %d: the API server rejects the names %q, want an error of Key", length, len(id), refused)
			}
		}
	}
}

func TestKeys_MayCollide(t *testing.T) {
	checker := progress.Annotations("").(progress.KeyChecker)
	one, _ := checker.Key("a/b")
	other, _ := checker.Key("a.b")
	if one != other {
		t.Errorf("KEY-04: keys = %q and %q, want equal keys", one, other)
	}
	one, _ = checker.Key(repeat("a/", 40) + "z")
	other, _ = checker.Key(repeat("a.", 40) + "z")
	if one == other {
		t.Errorf("KEY-05: keys of both long ids = %q, want different keys", one)
	}
}
