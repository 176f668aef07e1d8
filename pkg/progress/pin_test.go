package progress_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const (
	pinKey      = kopfPrefix + "/pinned-configuration"
	olderPinKey = "runtime.kopf.zalando.org/pinned-configuration"
)

func TestPin_PrefixOfBaseline(t *testing.T) {
	own := progress.AnnotationBaseline("example.com")
	inStatus := progress.StatusBaseline("status.kopf")
	for _, test := range []struct {
		name     string
		baseline progress.Baseline
		stores   []progress.Store
		want     string
	}{
		{"B-01 KEY-22 default prefix", progress.AnnotationBaseline(""), nil, pinKey},
		{"B-01 B-34 custom prefix", own, nil, "example.com/pinned-configuration"},
		{"B-01 prefixes of the baseline and the store", progress.AnnotationBaseline(""), []progress.Store{progress.Annotations("example.com")}, pinKey},
		{"B-01 ignored fields", progress.IgnoringFields(own, "spec.size"), nil, "example.com/pinned-configuration"},
		{"B-01 several baselines, the first has no prefix", progress.MultiBaseline(inStatus, own), nil, "example.com/pinned-configuration"},
		{"B-01 a baseline without a prefix", inStatus, nil, pinKey},
		{"B-01 a baseline and a store without prefixes", inStatus, []progress.Store{progress.Status("")}, pinKey},
		{"B-01 B-34 the prefix of the store", inStatus, []progress.Store{progress.Annotations("example.com")}, "example.com/pinned-configuration"},
		{"B-01 B-34 the prefix of several stores", inStatus, []progress.Store{progress.Multi(progress.Status(""), progress.AnnotationsV2("example.com"))}, "example.com/pinned-configuration"},
		{"B-01 the default store", inStatus, []progress.Store{progress.Smart()}, pinKey},
	} {
		t.Run(test.name, func(t *testing.T) {
			pin, obj := progress.Pin(test.baseline, test.stores...), configMap("a", "b")
			equal(t, "pin before Store", pin.Fetch(obj), []byte(nil))
			pin.Store(obj, []byte(`{"spec":{}}`))
			equal(t, "the key", obj.Annotations[test.want], `{"spec":{}}`)
			equal(t, "pin after Store", pin.Fetch(obj), []byte(`{"spec":{}}`))
			if got := fmt.Sprint(pin); !strings.Contains(got, test.want) {
				t.Errorf("name of the pin = %q, want a name with %q", got, test.want)
			}
			essence := jsonOf(t, obj)
			pin.Clear(essence)
			if annotations := essence["metadata"].(map[string]any)["annotations"].(map[string]any); annotations[test.want] != nil || annotations["a"] == nil {
				t.Errorf("essential annotations = %v, want those of other clients, without the pin", annotations)
			}
			equal(t, "baseline", test.baseline.Fetch(obj), []byte(nil))
			if _, err := store.(progress.KeyChecker).Key("pinned-configuration"); err == nil {
				t.Error("got no error for a handler with the name of the pin")
			}
			for _, prefix := range []string{"", "example.com"} {
				if err := progress.Annotations(prefix).(progress.Sweeper).Sweep(obj, nil); err != nil {
					t.Fatal(err)
				}
			}
			equal(t, "pin after Sweep", string(pin.Fetch(obj)), `{"spec":{}}`)
			pin.Store(obj, nil)
			equal(t, "remaining annotations", namesOf(obj, strings.Split(test.want, "/")[0]), []string(nil))
		})
	}
}

// Earlier versions stored the pin with another prefix. The current version reads this pin, and its next write removes
// it.
func TestPin_OlderPrefix(t *testing.T) {
	const text, other = `{"digest":"x"}`, `{"digest":"y"}`
	inStatus := progress.StatusBaseline("")
	for _, test := range []struct {
		name        string
		pin         progress.Baseline
		annotations []string
		fetched     string
		key         string // key of the stored pin
		kept        int    // number of remaining annotations
	}{
		{"older key", progress.Pin(progress.AnnotationBaseline("")), []string{olderPinKey, text}, text, pinKey, 0},
		{"both keys", progress.Pin(progress.AnnotationBaseline("")), []string{olderPinKey, text, pinKey, other}, other, pinKey, 0},
		{"a null in the newer key", progress.Pin(progress.AnnotationBaseline("")), []string{olderPinKey, text, pinKey, "null"}, text, pinKey, 0},
		{"only a null", progress.Pin(progress.AnnotationBaseline("")), []string{pinKey, "null"}, "null", pinKey, 0},
		{"a baseline in the status", progress.Pin(inStatus), []string{olderPinKey, text}, text, pinKey, 0},
		{"records with a custom prefix", progress.Pin(inStatus, progress.Annotations(ownPrefix)), []string{olderPinKey, text}, text, ownPrefix + "/pinned-configuration", 0},
		{"B-34 a baseline with a custom prefix", progress.Pin(progress.AnnotationBaseline(ownPrefix)), []string{olderPinKey, text}, "", ownPrefix + "/pinned-configuration", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := configMap(test.annotations...)
			equal(t, "pin", string(test.pin.Fetch(obj)), test.fetched)
			essence := jsonOf(t, obj)
			test.pin.Clear(essence)
			if _, left := essence["metadata"].(map[string]any)["annotations"]; left != (test.kept > 0) {
				t.Errorf("essence = %v, want other annotations: %t", essence, test.kept > 0)
			}
			written := configMap(test.annotations...)
			test.pin.Store(written, []byte(other))
			equal(t, "stored pin", written.Annotations[test.key], other)
			equal(t, "number of annotations with the prefix", len(namesOf(written, strings.Split(test.key, "/")[0])), 1)
			equal(t, "number of older keys", len(namesOf(written, "runtime.kopf.zalando.org")), test.kept)
			test.pin.Store(obj, nil)
			equal(t, "number of remaining annotations", len(obj.Annotations), test.kept)
		})
	}
}
