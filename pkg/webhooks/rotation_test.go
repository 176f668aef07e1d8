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

// The steps of a rotation, one by one, and that nothing is ever served that is not trusted.
func TestSteps(t *testing.T) {
	g := NewWithT(t)
	r := webhooks.NewRotation(90*time.Minute, time.Minute, hosts)
	now := time.Now()
	var k webhooks.Keychain
	step := func(confirmed, wantChange bool) time.Duration {
		t.Helper()
		next, changed, wait, err := r.Step(k, now, confirmed)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(changed).To(Equal(wantChange))
		g.Expect(next.Trusts(next.Serving())).To(BeTrue())
		if k.Serving() != nil && k.Serving() != next.Serving() && now.Before(k.Serving().NotAfter()) {
			g.Expect(k.Trusts(next.Serving())).To(BeTrue(), "before it was served")
			g.Expect(next.Trusts(k.Serving())).To(BeTrue(), "while others may serve it still")
		}
		k = next
		return wait
	}
	step(false, true)
	first := k.Serving()
	g.Expect(first.Covers(hosts)).To(BeTrue())
	g.Expect(first.NotAfter()).To(BeTemporally("~", now.Add(90*time.Minute), 2*time.Minute))
	g.Expect(step(true, false)).To(BeNumerically("~", time.Hour, time.Minute), "until it is renewed")

	// Certificates are issued by the real clock: the next one has to live longer than the time that is jumped over.
	r = webhooks.NewRotation(10*time.Hour, time.Minute, hosts)
	now = first.NotAfter().Add(-30 * time.Minute)
	step(true, true)
	g.Expect(k.Next()).NotTo(BeNil())
	g.Expect(k.Size()).To(Equal(2))
	for range 3 {
		g.Expect(step(false, false)).To(BeZero(), "it is not told to the API server yet")
	}
	g.Expect(step(true, true)).To(Equal(time.Minute), "now it is")
	now = now.Add(59 * time.Second)
	g.Expect(step(true, false)).To(Equal(time.Second))
	stored, err := webhooks.Stored(k, &corev1.Secret{})
	g.Expect(err).NotTo(HaveOccurred())
	k = stored // as another replica has it
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
	g.Expect(k.Trusts(first)).To(BeFalse(), "what has expired is trusted no more")
}

// Other names need another certificate, which has the old names, too: two versions of an operator do not take turns.
func TestOtherHosts(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	k, _, _, err := webhooks.NewRotation(time.Hour, time.Minute, []string{"a"}).Step(webhooks.Keychain{}, now, false)
	g.Expect(err).NotTo(HaveOccurred())
	r := webhooks.NewRotation(time.Hour, time.Minute, []string{"b", "::1"})
	k, changed, _, err := r.Step(k, now, true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed).To(BeTrue())
	g.Expect(k.Next().Covers([]string{"a", "b", "::1"})).To(BeTrue())
	g.Expect(k.Serving().Covers([]string{"b"})).To(BeFalse(), "not at once")
}

// After a long sleep there is nothing valid to serve: it is replaced without waiting for anybody.
func TestExpired(t *testing.T) {
	g := NewWithT(t)
	r := webhooks.NewRotation(time.Hour, time.Minute, hosts)
	k, _, _, err := r.Step(webhooks.Keychain{}, time.Now(), false)
	g.Expect(err).NotTo(HaveOccurred())
	late := time.Now().Add(2 * time.Hour)
	old := k.Serving()
	k, changed, _, err := r.Step(k, late, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed).To(BeTrue())
	g.Expect(k.Serving()).NotTo(Equal(old))
	g.Expect(k.Trusts(old)).To(BeFalse())
}

// Broken Secrets are absent ones.
func TestBrokenSecrets(t *testing.T) {
	g := NewWithT(t)
	k, _, _, err := webhooks.NewRotation(time.Hour, time.Minute, hosts).Step(webhooks.Keychain{}, time.Now(), false)
	g.Expect(err).NotTo(HaveOccurred())
	whole := &corev1.Secret{}
	_, err = webhooks.Stored(k, whole)
	g.Expect(err).NotTo(HaveOccurred())
	for key, text := range map[string]string{"tls.crt": "x", "tls.key": "", "ca.crt": "y", "next.crt": "z"} {
		broken := whole.DeepCopy()
		broken.Data[key] = []byte(text)
		_, err := webhooks.ReadSecret(broken)
		g.Expect(err).To(HaveOccurred(), key)
	}
	whole.Annotations = map[string]string{"kopf.dev/next-trusted-since": "yesterday"}
	_, err = webhooks.ReadSecret(whole)
	g.Expect(err).NotTo(HaveOccurred())
}

// Many replicas that start at once make one Secret; also if it was there, and broken.
func TestTheSecretIsMadeOnce(t *testing.T) {
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
			ring := webhooks.NewKeyring(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), time.Now)
			wait.Go(func() {
				err := ring.Load(t.Context())
				cert, _ := ring.GetCertificate(nil)
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

// What a watch tells late does not undo what this replica has written meanwhile; and there is no bundle before there is a Secret.
func TestLateNewsOfTheSecret(t *testing.T) {
	needServer(t)
	g, ctx := NewWithT(t), t.Context()
	key := client.ObjectKey{Namespace: newNamespace(t), Name: "late"}
	ring := webhooks.NewKeyring(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), time.Now)
	_, err := ring.TryBundle()
	g.Expect(err).To(MatchError(ContainSubstring("has not been read yet")))
	g.Expect(ring.Load(ctx)).To(Succeed())
	early := &corev1.Secret{}
	g.Expect(k8s.Get(ctx, key, early)).To(Succeed())
	g.Expect(k8s.Delete(ctx, early.DeepCopy())).To(Succeed())
	before := ring.Bundle()
	_, err = ring.Step(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	after := ring.Bundle()
	g.Expect(after).NotTo(Equal(before))
	ring.See(ctx, early)
	g.Expect(ring.Bundle()).To(Equal(after))
	late := &corev1.Secret{}
	g.Expect(k8s.Get(ctx, key, late)).To(Succeed())
	other := webhooks.NewKeyring(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), time.Now)
	other.See(ctx, early)
	other.See(ctx, late)
	g.Expect(other.Bundle()).To(Equal(after), "of another replica")
}

// A Secret that is deleted or broken is no reason to serve what nobody trusts yet: the certificate stays, and the next one has to be
// trusted first, as in any rotation.
func TestTheSecretIsLost(t *testing.T) {
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
		ring := webhooks.NewKeyring(k8s, key, webhooks.NewRotation(time.Hour, time.Minute, hosts), func() time.Time { return now })
		served := func() []byte {
			cert, err := ring.GetCertificate(nil)
			g.Expect(err).NotTo(HaveOccurred())
			return cert.Certificate[0]
		}
		step := func(confirmed []byte) {
			_, err := ring.Step(ctx, confirmed)
			g.Expect(err).NotTo(HaveOccurred(), name)
		}
		g.Expect(ring.Load(ctx)).To(Succeed())
		first, old := served(), ring.Bundle()
		secret := &corev1.Secret{}
		g.Expect(k8s.Get(ctx, key, secret)).To(Succeed())
		g.Expect(lose(secret)).To(Succeed())

		step(old)
		g.Expect(served()).To(Equal(first), name)
		stored := &corev1.Secret{}
		g.Expect(k8s.Get(ctx, key, stored)).To(Succeed())
		g.Expect(stored.Data["tls.key"]).NotTo(BeEmpty(), name)
		g.Expect(stored.Data["next.key"]).NotTo(BeEmpty(), name)
		g.Expect(string(ring.Bundle())).To(HavePrefix(string(old)), name)
		g.Expect(len(ring.Bundle())).To(BeNumerically(">", len(old)), name)
		step(old)
		g.Expect(served()).To(Equal(first), name)
		step(ring.Bundle()) // now it is trusted
		now = now.Add(time.Minute)
		step(ring.Bundle())
		g.Expect(served()).NotTo(Equal(first), name)
		second := served()
		step(ring.Bundle())
		g.Expect(served()).To(Equal(second), "%s: once", name)
	}
}

// The same under traffic: no call fails, also none with a connection of its own.
func TestTheSecretIsLostUnderLoad(t *testing.T) {
	t.Parallel() // it waits for most of its time
	needServer(t)
	g, port := NewWithT(t), freePort()
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	op := start(t, choices{port: port, hooks: []webhooks.Hook{validate(accept, patiently)}, options: func(o *webhooks.Options) {
		o.ClientConfig.URL, o.Certificates = &url, seldom
	}})
	l := begin(t, op.ns)
	l.connects(t, op.name, url)
	for _, lose := range []func(client.Object) error{
		func(s client.Object) error { return k8s.Delete(t.Context(), s) },
		func(s client.Object) error {
			return k8s.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"data":{"tls.crt":"eA=="}}`)))
		},
	} {
		before := servedCA(t, op.ns)
		g.Expect(lose(secretOf(t, op.ns))).To(Succeed())
		g.Eventually(func(g Gomega) {
			g.Expect(secretOf(t, op.ns).Data).NotTo(HaveKey("next.crt"))
			g.Expect(servedCA(t, op.ns)).NotTo(Or(BeEmpty(), Equal(before)))
		}).Should(Succeed())
	}
	l.finish()
	l.answered(g, "while the Secret was lost")
	g.Expect(l.connected.Load()).NotTo(BeZero())
}
