package kopf_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var secretKind = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// confidential are the values that must not appear anywhere, also without encoding.
var confidential = []string{"hunter2", "swordfish"}

// secretTest runs operators for one Secret with the value "hunter2", which a test changes to "swordfish".
type secretTest struct {
	*testing.T
	cluster *kopftest.Cluster
	calls   []string
	mu      sync.Mutex
	log     strings.Builder
}

func newSecretTest(t *testing.T) *secretTest {
	t.Helper()
	secret := newSecret("key")
	secret.Data = map[string][]byte{"password": []byte(confidential[0])}
	return &secretTest{T: t, cluster: kopftest.Memory(t, kopftest.Objects(secret))}
}

func (t *secretTest) start(options ...kopf.Option) *kopftest.Operator {
	t.Helper()
	// From level 8 on, client-go logs all requests and responses.
	sink := funcr.New(func(prefix, args string) {
		t.mu.Lock()
		defer t.mu.Unlock()
		fmt.Fprintln(&t.log, prefix, args)
	}, funcr.Options{Verbosity: 7})
	return t.cluster.RunManager(t, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, options...) },
		func(o *manager.Options) { o.Logger = sink })
}

// expectHidden fails the test if a write, an Event, a log line or the stored Secret, apart from its data, contains a confidential value.
func (t *secretTest) expectHidden(operator *kopftest.Operator) {
	t.Helper()
	t.mu.Lock()
	texts := map[string]string{"the log": t.log.String(), "the annotations": fmt.Sprint(t.secret().Annotations)}
	t.mu.Unlock()
	for _, write := range operator.Writes() {
		texts[write.String()] += fmt.Sprint(write.Body)
	}
	for _, event := range operator.Events() {
		texts["an Event"] += fmt.Sprintf("%+v", event)
	}
	for place, text := range texts {
		for _, value := range confidential {
			if strings.Contains(text, value) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(value))) {
				i := max(strings.Index(text, value), strings.Index(text, base64.StdEncoding.EncodeToString([]byte(value))))
				t.Errorf("%s contains the data of the Secret: %q", place, text[max(0, i-200):min(len(text), i+50)])
			}
		}
	}
}

func (t *secretTest) secret() *corev1.Secret {
	t.Helper()
	secret := newSecret("key")
	t.cluster.Get(t, secret)
	return secret
}

func (t *secretTest) set(data map[string][]byte) {
	t.Helper()
	kopftest.Edit(t, t.cluster, newSecret("key"), func(s *corev1.Secret) { s.Data = data })
}

func (t *secretTest) expectCalls(want ...string) {
	t.Helper()
	if slices.Sort(t.calls); !slices.Equal(t.calls, want) {
		t.Errorf("calls = %q, want %q", t.calls, want)
	}
	t.calls = nil
}

// handlers returns handlers for all causes. The first attempt of each one fails, so that there are records and a pin.
func secretHandlers[T client.Object](t *secretTest, r *kopf.Resource[T]) *kopf.Resource[T] {
	handle := func(_ context.Context, req *kopf.Request[T]) error {
		if req.Attempt.Number == 0 {
			return kopf.Temporary(errors.New("not yet"), time.Second)
		}
		t.calls = append(t.calls, fmt.Sprintf("%s %s known=%t diff=%d", req.Handler, req.Reason, req.OldKnown(), len(req.Diff)))
		return nil
	}
	return r.OnCreate("create", handle).OnUpdate("update", handle).OnField("field", "data.password", handle)
}

func TestSecrets_StoreOnlyDigests(t *testing.T) {
	for name, declare := range map[string]func(*secretTest) kopf.Option{
		"a Go type":    func(t *secretTest) kopf.Option { return secretHandlers(t, kopf.For(&corev1.Secret{})) },
		"unstructured": func(t *secretTest) kopf.Option { return secretHandlers(t, kopf.For(kopf.Unstructured(secretKind))) },
		"WhenServed": func(t *secretTest) kopf.Option {
			return secretHandlers(t, kopf.For(&corev1.Secret{}, kopf.WhenServed()))
		},
		"ForKinds": func(t *secretTest) kopf.Option {
			return kopf.ForKinds(kopf.Kinds("secrets"), func(metav1.APIResource) kopf.Option {
				return secretHandlers[*unstructured.Unstructured](t, kopf.For(kopf.Unstructured(secretKind)))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test := newSecretTest(t)
				operator := test.start(declare(test))
				operator.RunUntilQuiet(t)
				test.expectCalls("create create known=true diff=1", "field/data.password create known=true diff=1")
				test.set(map[string][]byte{"password": []byte(confidential[1])})
				operator.RunUntilQuiet(t)
				test.expectCalls("field/data.password update known=false diff=0", "update update known=false diff=0")
				test.expectHidden(operator)
				operator.Stop(t)

				operator = test.start(declare(test)) // nothing has changed
				operator.RunUntilQuiet(t)
				test.expectCalls()
				test.set(nil) // the field may have been present
				operator.RunUntilQuiet(t)
				test.expectCalls("field/data.password update known=false diff=0", "update update known=false diff=0")
				test.expectHidden(operator)
			})
		})
	}
}

func TestSecrets_EditDuringACycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := newSecretTest(t)
		operator := test.start(secretHandlers(test, kopf.For(&corev1.Secret{})))
		for range 100 { // until the handlers have failed once
			if test.secret().Annotations[progress.DefaultPrefix+"/pinned-configuration"] != "" {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if pin := test.secret().Annotations[progress.DefaultPrefix+"/pinned-configuration"]; !strings.Contains(pin, "digest") {
			t.Errorf("the pin is %q, want a digest", pin)
		}
		test.expectHidden(operator)
		test.set(map[string][]byte{"password": []byte(confidential[1])})
		operator.RunUntilQuiet(t)
		test.expectCalls("create create known=true diff=1", "field/data.password create known=true diff=1",
			"field/data.password update known=false diff=0", "update update known=false diff=0")
		test.expectHidden(operator)
	})
}

// kopf in Python, or an earlier version, has stored the text.
func TestSecrets_RemoveStoredTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := newSecretTest(t)
		operator := test.start(secretHandlers(test, kopf.For(&corev1.Secret{}, kopf.WithDigestOnly(false))))
		operator.RunUntilQuiet(t)
		operator.Stop(t)
		key := progress.DefaultPrefix + "/last-handled-configuration"
		if text := test.secret().Annotations[key]; !strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(confidential[0]))) {
			t.Errorf("with the option, the last-handled configuration is %q, want the text", text)
		}
		test.calls = nil
		operator = test.start(secretHandlers(test, kopf.For(&corev1.Secret{})))
		operator.RunUntilQuiet(t)
		test.expectCalls()
		test.expectHidden(operator)
		if text := strings.TrimSpace(test.secret().Annotations[key]); text != "{}" {
			t.Errorf("the last-handled configuration is %q, want {} for kopf in Python", text)
		}
		if writes := operator.Writes(); len(writes) != 1 {
			t.Errorf("writes = %v, want one", writes)
		}
		operator.Stop(t)

		// A Secret that no handler matches may belong to another operator.
		before := test.secret()
		before.Annotations = map[string]string{key: `{"data":{}}` + "\n"}
		if err := test.cluster.Client.Update(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		operator = test.start(kopf.For(&corev1.Secret{}).OnCreate("create", func(context.Context, *kopf.Request[*corev1.Secret]) error { return nil }, kopf.Label("handled")))
		operator.RunUntilQuiet(t)
		if writes := operator.Writes(); len(writes) > 0 {
			t.Errorf("writes = %v to an object without matching handlers, want none", writes)
		}
	})
}

func TestWithDigestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		test := newSecretTest(t)
		operator := test.start(secretHandlers(test, kopf.For(&corev1.Secret{}, kopf.WithDigestOnly(false))))
		operator.RunUntilQuiet(t)
		test.calls = nil
		test.set(map[string][]byte{"password": []byte(confidential[1]), "user": []byte("me")})
		operator.RunUntilQuiet(t)
		test.expectCalls("field/data.password update known=true diff=1", "update update known=true diff=2")
	})
	synctest.Test(t, func(t *testing.T) { // metadata has no data
		test := newSecretTest(t)
		operator := test.start(kopf.For(kopf.Metadata(secretKind)).OnUpdate("update", func(_ context.Context, req *kopf.Request[*metav1.PartialObjectMetadata]) error {
			test.calls = append(test.calls, fmt.Sprint(req.OldKnown(), req.Diff))
			return nil
		}))
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, test.cluster, newSecret("key"), func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} })
		operator.RunUntilQuiet(t)
		if len(test.calls) != 1 || !strings.HasPrefix(test.calls[0], "true") {
			t.Errorf("calls = %q, want one with the old metadata", test.calls)
		}
		test.expectHidden(operator)
	})
	synctest.Test(t, func(t *testing.T) { // other kinds
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var known []bool
		changes := 0
		resource := kopf.For(&corev1.ConfigMap{}, kopf.WithDigestOnly(true)).OnUpdate("update", func(_ context.Context, req *kopf.Request[configMap]) error {
			known = append(known, req.OldKnown())
			return nil
		})
		kopf.OnChange(resource, "change", func(c configMap) string { return c.Data["key"] }, func(_ context.Context, _ *kopf.Request[configMap], old, _ string) error {
			changes++
			return nil
		})
		operator := cluster.Run(t, resource)
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, newConfigMap("one"), func(c configMap) { c.Data = map[string]string{"key": "hunter2"} })
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, newConfigMap("one"), func(c configMap) { c.Data = nil })
		operator.RunUntilQuiet(t)
		if !slices.Equal(known, []bool{false, false}) || changes < 2 {
			t.Errorf("known = %v, changes = %d, want two unknown old states, and a call for each change of the value", known, changes)
		}
		one := newConfigMap("one")
		cluster.Get(t, one)
		if text := fmt.Sprint(one.Annotations); strings.Contains(text, "hunter2") || !strings.Contains(text, "last-handled-digest") {
			t.Errorf("annotations = %s, want a digest", text)
		}
	})
}

// More users can read ConfigMaps than Secrets.
func TestWithRemote_RefusesSecretsInConfigMaps(t *testing.T) {
	ignore := func(context.Context, *kopf.Request[*corev1.Secret]) error { return nil }
	configMaps := &progress.SideObjects{Client: kopftest.Memory(t).Client, Reader: kopftest.Memory(t).Client}
	words := []string{"Secret: WithRemote: ", "ConfigMaps, which more users can read", "set Secrets in SideObjects"}
	for name, resource := range map[string]kopf.Option{
		"the default":      kopf.For(&corev1.Secret{}).OnCreate("x", ignore),
		"the text":         kopf.For(&corev1.Secret{}, kopf.WithDigestOnly(false)).OnCreate("x", ignore),
		"only metadata":    kopf.For(kopf.Metadata(secretKind)).OnCreate("x", func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil }),
		"unstructured":     kopf.For(kopf.Unstructured(secretKind)).OnCreate("x", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil }),
		"only when served": kopf.For(&corev1.Secret{}, kopf.WhenServed()).OnCreate("x", ignore),
	} {
		t.Run(name, func(t *testing.T) { wantErrorOf(t, []kopf.Option{resource, kopf.WithRemote(configMaps)}, words) })
	}
	t.Run("a confidential kind", func(t *testing.T) {
		resource := kopf.For(&corev1.ConfigMap{}, kopf.WithDigestOnly(true)).OnCreate("x", func(context.Context, *kopf.Request[configMap]) error { return nil })
		wantErrorOf(t, []kopf.Option{resource, kopf.WithRemote(configMaps)}, []string{"ConfigMap: WithRemote: ", "set Secrets"})
	})
	t.Run("ForKinds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			test := newSecretTest(t)
			operator := test.start(kopf.WithRemote(&progress.SideObjects{Client: test.cluster.Client, Reader: test.cluster.Client}),
				kopf.ForKinds(kopf.Kinds("secrets"), func(metav1.APIResource) kopf.Option {
					return secretHandlers[*unstructured.Unstructured](test, kopf.For(kopf.Unstructured(secretKind)))
				}))
			operator.RunUntilQuiet(t)
			test.expectCalls()
			if log := test.log.String(); !strings.Contains(log, words[1]) {
				t.Errorf("the log does not report the error:\n%s", log)
			}
		})
	})
	for name, option := range map[string]kopf.Option{
		"Secrets":             kopf.WithRemote(&progress.SideObjects{Client: configMaps.Client, Reader: configMaps.Client, Secrets: true}),
		"an operator without": kopf.WithFinalizer(kopf.DefaultFinalizer),
	} {
		operator := kopf.New(newManager(), kopf.For(&corev1.Secret{}).OnCreate("x", ignore), option)
		if err := operator.CheckDeclaration(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
