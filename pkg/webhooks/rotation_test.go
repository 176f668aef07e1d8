package webhooks_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

var hosts = []string{"s.ns.svc", "127.0.0.1"}

// A rotation performs one step at a time. It never serves an untrusted certificate.
func TestRotation_Steps(t *testing.T) {
	g := NewWithT(t)
	r := webhooks.NewRotation(90*time.Minute, time.Minute, hosts)
	now := time.Now()
	var k webhooks.CertBundle
	step := func(published, wantChange bool) time.Duration {
		t.Helper()
		next, changed, wait, err := r.Advance(k, now, published)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(changed).To(Equal(wantChange))
		g.Expect(next.Trusts(next.Serving())).To(BeTrue())
		if k.Serving() != nil && k.Serving() != next.Serving() && now.Before(k.Serving().NotAfter()) {
			g.Expect(k.Trusts(next.Serving())).To(BeTrue(), "want the certificate trusted before it is served")
			g.Expect(next.Trusts(k.Serving())).To(BeTrue(), "want the previous certificate trusted while other replicas may serve it")
		}
		k = next
		return wait
	}
	step(false, true)
	first := k.Serving()
	g.Expect(first.Covers(hosts)).To(BeTrue())
	g.Expect(first.NotAfter()).To(BeTemporally("~", now.Add(90*time.Minute), 2*time.Minute))
	g.Expect(step(true, false)).To(BeNumerically("~", time.Hour, time.Minute), "want the time until the renewal")

	// Certificates use the real clock, so the next certificate must be valid for longer than the skipped time.
	r = webhooks.NewRotation(10*time.Hour, time.Minute, hosts)
	now = first.NotAfter().Add(-30 * time.Minute)
	step(true, true)
	g.Expect(k.Next()).NotTo(BeNil())
	g.Expect(k.Size()).To(Equal(2))
	for range 3 {
		g.Expect(step(false, false)).To(BeZero(), "want no step before the CA is published")
	}
	g.Expect(step(true, true)).To(Equal(time.Minute), "want the next step after the CA is published")
	now = now.Add(59 * time.Second)
	g.Expect(step(true, false)).To(Equal(time.Second))
	stored, err := webhooks.StoreAndParse(k, &corev1.Secret{})
	g.Expect(err).NotTo(HaveOccurred())
	k = stored // another replica reads the bundle in this form
	now = now.Add(2 * time.Second)
	second := k.Next()
	step(true, true)
	g.Expect(k.Serving()).To(Equal(second))
	g.Expect(k.Next()).To(BeNil())
	g.Expect(k.Size()).To(Equal(2))

	now = first.NotAfter().Add(time.Minute)
	step(true, true)
	g.Expect(k.Serving()).To(Equal(second))
	g.Expect(k.Trusts(second)).To(BeTrue())
	g.Expect(k.Trusts(first)).To(BeFalse(), "want expired CAs removed")
}

// A certificate for new hosts includes the old hosts, so that two versions of an operator do not replace it
// alternately.
func TestRotation_ChangedHosts(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	k, _, _, err := webhooks.NewRotation(time.Hour, time.Minute, []string{"a"}).Advance(webhooks.CertBundle{}, now, false)
	g.Expect(err).NotTo(HaveOccurred())
	r := webhooks.NewRotation(time.Hour, time.Minute, []string{"b", "::1"})
	k, changed, _, err := r.Advance(k, now, true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed).To(BeTrue())
	g.Expect(k.Next().Covers([]string{"a", "b", "::1"})).To(BeTrue())
	g.Expect(k.Serving().Covers([]string{"b"})).To(BeFalse(), "want no immediate replacement")
}

// An expired certificate is replaced immediately.
func TestRotation_ExpiredCertificate(t *testing.T) {
	g := NewWithT(t)
	r := webhooks.NewRotation(time.Hour, time.Minute, hosts)
	k, _, _, err := r.Advance(webhooks.CertBundle{}, time.Now(), false)
	g.Expect(err).NotTo(HaveOccurred())
	late := time.Now().Add(2 * time.Hour)
	old := k.Serving()
	k, changed, _, err := r.Advance(k, late, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed).To(BeTrue())
	g.Expect(k.Serving()).NotTo(Equal(old))
	g.Expect(k.Trusts(old)).To(BeFalse())
}

// ParseSecret returns errors for invalid parts of a Secret, except for an invalid annotation.
func TestParseSecret_Invalid(t *testing.T) {
	g := NewWithT(t)
	k, _, _, err := webhooks.NewRotation(time.Hour, time.Minute, hosts).Advance(webhooks.CertBundle{}, time.Now(), false)
	g.Expect(err).NotTo(HaveOccurred())
	whole := &corev1.Secret{}
	_, err = webhooks.StoreAndParse(k, whole)
	g.Expect(err).NotTo(HaveOccurred())
	for key, text := range map[string]string{"tls.crt": "x", "tls.key": "", "ca.crt": "y", "next.crt": "z"} {
		broken := whole.DeepCopy()
		broken.Data[key] = []byte(text)
		_, err := webhooks.ParseSecret(broken)
		g.Expect(err).To(HaveOccurred(), key)
	}
	whole.Annotations = map[string]string{"kopf.dev/next-trusted-since": "yesterday"}
	_, err = webhooks.ParseSecret(whole)
	g.Expect(err).NotTo(HaveOccurred())
}

// Replicas that start concurrently create one Secret, or repair one invalid Secret.
func TestCertStore_ConcurrentCreation(t *testing.T) {
	needServer(t)
	g := NewWithT(t)
	for _, broken := range []bool{false, true} {
		key := client.ObjectKey{Namespace: newNamespace(t), Name: "shared"}
		if broken {
			secret := &corev1.Secret{Data: map[string][]byte{"tls.crt": []byte("x"), "other": []byte("kept")}}
			secret.Name, secret.Namespace = key.Name, key.Namespace
			g.Expect(k8s.Create(t.Context(), secret)).To(Succeed())
		}
		var wait sync.WaitGroup
		served := make([]string, 8)
		for i := range served {
			store := webhooks.NewCertStore(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), time.Now)
			wait.Go(func() {
				err := store.Load(t.Context())
				cert, _ := store.GetCertificate(nil)
				if err != nil {
					t.Error(err)
					return
				}
				served[i] = string(cert.Certificate[0])
			})
		}
		wait.Wait()
		g.Expect(served).To(HaveEach(served[0]))
		secret := &corev1.Secret{}
		g.Expect(k8s.Get(t.Context(), key, secret)).To(Succeed())
		g.Expect(secret.Data).To(HaveKey("ca.crt"))
		if broken {
			g.Expect(secret.Data).To(HaveKeyWithValue("other", []byte("kept")))
		}
	}
}

// An outdated event does not replace a newer state. The bundle is empty before the Secret is loaded.
func TestCertStore_OutdatedEvent(t *testing.T) {
	needServer(t)
	g, ctx := NewWithT(t), t.Context()
	key := client.ObjectKey{Namespace: newNamespace(t), Name: "late"}
	store := webhooks.NewCertStore(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), time.Now)
	_, err := store.TryCABundle()
	g.Expect(err).To(MatchError(ContainSubstring("is not loaded yet")))
	g.Expect(store.Load(ctx)).To(Succeed())
	early := &corev1.Secret{}
	g.Expect(k8s.Get(ctx, key, early)).To(Succeed())
	g.Expect(k8s.Delete(ctx, early.DeepCopy())).To(Succeed())
	before := store.CABundle()
	_, err = store.Rotate(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	after := store.CABundle()
	g.Expect(after).NotTo(Equal(before))
	store.Observe(ctx, early)
	g.Expect(store.CABundle()).To(Equal(after))
	late := &corev1.Secret{}
	g.Expect(k8s.Get(ctx, key, late)).To(Succeed())
	other := webhooks.NewCertStore(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), time.Now)
	other.Observe(ctx, early)
	other.Observe(ctx, late)
	g.Expect(other.CABundle()).To(Equal(after), "want the bundle that another replica observes")
}

// After the Secret is deleted or becomes invalid, a regular rotation starts. The current certificate is served until
// the next one is trusted.
func TestCertStore_LostSecret(t *testing.T) {
	needServer(t)
	for name, lose := range map[string]func(*corev1.Secret) error{
		"deleted": func(s *corev1.Secret) error { return k8s.Delete(t.Context(), s) },
		"broken": func(s *corev1.Secret) error {
			s.Data["tls.crt"] = []byte("x")
			return k8s.Update(t.Context(), s)
		},
		"emptied": func(s *corev1.Secret) error {
			s.Data = map[string][]byte{"tls.crt": {}, "tls.key": {}}
			return k8s.Update(t.Context(), s)
		},
	} {
		g, ctx, now := NewWithT(t), t.Context(), time.Now()
		key := client.ObjectKey{Namespace: newNamespace(t), Name: "lost"}
		store := webhooks.NewCertStore(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), func() time.Time { return now })
		served := func() []byte {
			cert, err := store.GetCertificate(nil)
			g.Expect(err).NotTo(HaveOccurred())
			return cert.Certificate[0]
		}
		step := func(published []byte) {
			_, err := store.Rotate(ctx, published)
			g.Expect(err).NotTo(HaveOccurred(), name)
		}
		g.Expect(store.Load(ctx)).To(Succeed())
		first, old := served(), store.CABundle()
		secret := &corev1.Secret{}
		g.Expect(k8s.Get(ctx, key, secret)).To(Succeed())
		g.Expect(lose(secret)).To(Succeed())

		step(old)
		g.Expect(served()).To(Equal(first), name)
		stored := &corev1.Secret{}
		g.Expect(k8s.Get(ctx, key, stored)).To(Succeed())
		g.Expect(stored.Data["tls.key"]).NotTo(BeEmpty(), name)
		g.Expect(stored.Data["next.key"]).NotTo(BeEmpty(), name)
		g.Expect(string(store.CABundle())).To(HavePrefix(string(old)), name)
		g.Expect(len(store.CABundle())).To(BeNumerically(">", len(old)), name)
		step(old)
		g.Expect(served()).To(Equal(first), name)
		step(store.CABundle()) // the CA is published
		now = now.Add(time.Minute)
		step(store.CABundle())
		g.Expect(served()).NotTo(Equal(first), name)
		second := served()
		step(store.CABundle())
		g.Expect(served()).To(Equal(second), "%s: want one rotation", name)
	}
}

// If the Secret is lost under load, no call fails.
func TestServer_LostSecretUnderLoad(t *testing.T) {
	t.Parallel() // the test mostly waits
	needServer(t)
	g, port := NewWithT(t), freePort()
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	op := start(t, operatorConfig{port: port, hooks: []webhooks.Hook{validate(accept, maxTimeout)}, options: func(o *webhooks.Options) {
		o.ClientConfig.URL, o.Certificates = &url, rareRotation
	}})
	l := startLoad(t, op.ns)
	l.addConnections(t, op.name, url)
	for _, lose := range []func(client.Object) error{
		func(s client.Object) error { return k8s.Delete(t.Context(), s) },
		func(s client.Object) error {
			return k8s.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"data":{"tls.crt":"eA=="}}`)))
		},
	} {
		before := servedCertificate(t, op.ns)
		g.Expect(lose(secretOf(t, op.ns))).To(Succeed())
		g.Eventually(func(g Gomega) {
			g.Expect(secretOf(t, op.ns).Data).NotTo(HaveKey("next.crt"))
			g.Expect(servedCertificate(t, op.ns)).NotTo(Or(BeEmpty(), Equal(before)))
		}).Should(Succeed())
	}
	l.finish()
	l.expectAnswers(g, "while the Secret was lost")
	g.Expect(l.connected.Load()).NotTo(BeZero())
}
