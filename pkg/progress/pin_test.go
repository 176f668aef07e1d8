package progress_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestPinIsBesideTheBaseline(t *testing.T) {
	own := progress.AnnotationBaseline("example.com")
	for _, test := range []struct {
		name     string
		baseline progress.Baseline
		want     string
	}{
		{"B-01 kopf ignores it", progress.AnnotationBaseline(""), "runtime.kopf.zalando.org/pinned-configuration"},
		{"B-01 B-34 a prefix of one's own", own, "example.com/pinned-configuration"},
		{"B-01 several baselines: the first that has a place", progress.MultiBaseline(progress.StatusBaseline("status.kopf"), own), "example.com/pinned-configuration"},
		{"B-01 a baseline without a prefix", progress.StatusBaseline("status.kopf"), "runtime.kopf.zalando.org/pinned-configuration"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pin, obj := progress.Pin(test.baseline), configMap("a", "b")
			equal(t, "nothing at first", pin.Fetch(obj), []byte(nil))
			pin.Store(obj, []byte(`{"spec":{}}`))
			equal(t, "the key", obj.Annotations[test.want], `{"spec":{}}`)
			equal(t, "it is read again", pin.Fetch(obj), []byte(`{"spec":{}}`))
			if got := fmt.Sprint(pin); !strings.Contains(got, test.want) {
				t.Errorf("its name is %q, want one with %q", got, test.want)
			}
			essence := jsonOf(t, obj)
			pin.Clear(essence)
			if annotations := essence["metadata"].(map[string]any)["annotations"].(map[string]any); annotations[test.want] != nil || annotations["a"] == nil {
				t.Errorf("essential are %v, want what others have set, without the pin", annotations)
			}
			equal(t, "it is no baseline", test.baseline.Fetch(obj), []byte(nil))
			equal(t, "it is no record", mustFetch(t, store, obj, "pinned-configuration"), (*progress.Record)(nil))
			pin.Store(obj, nil)
			equal(t, "removed", namesOf(obj, strings.Split(test.want, "/")[0]), []string(nil))
		})
	}
}
