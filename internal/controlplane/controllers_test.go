package controlplane

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// needControllers skips the test if kube-controller-manager is not built. Otherwise, it does the same as needServers.
func needControllers(t *testing.T) string {
	t.Helper()
	tmp := needServers(t)
	assets, err := Assets()
	if err != nil {
		t.Fatal(err)
	}
	if err := hasControllers(assets); err != nil {
		t.Skip(err)
	}
	return tmp
}

// assetsWith returns a directory with the real servers and a script as kube-controller-manager.
func assetsWith(t *testing.T, script string) string {
	t.Helper()
	g := NewWithT(t)
	assets, err := Assets()
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		g.Expect(os.Symlink(filepath.Join(assets, name), filepath.Join(dir, name))).To(Succeed())
	}
	g.Expect(os.WriteFile(filepath.Join(dir, controllerManager), []byte(script), 0o755)).To(Succeed())
	return dir
}

func TestControllers(t *testing.T) {
	g := NewWithT(t)
	tmp := needControllers(t)
	cp, err := Start(Options{Controllers: true, Audit: true})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = cp.Stop() })
	g.Expect(processes(t, tmp)).To(HaveLen(4), "etcd, kube-apiserver, kube-controller-manager and the reaper")
	g.Expect(processes(t, tmp)).To(ContainElement(ContainSubstring("--bind-address=127.0.0.1 --secure-port=")))

	c, err := client.New(cp.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	g.Expect(c.Create(t.Context(), namespace)).To(Succeed())
	g.Expect(c.Delete(t.Context(), namespace)).To(Succeed())
	g.Eventually(func() error { return c.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace) }, patience, interval).
		Should(MatchError(ContainSubstring("not found")))
	requests, err := cp.AuditSinceStart().Next()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests).To(ContainElement(And(
		HaveField("User", ControllersUser), HaveField("Resource", "namespaces"), HaveField("Subresource", "finalize"))))
	g.Expect(cp.Log(controllerManager)).To(ContainSubstring("Serving securely on 127.0.0.1:"))
	_, err = cp.Log("scheduler")
	g.Expect(err).To(MatchError(ContainSubstring(`no log of "scheduler"`)))

	g.Expect(cp.Stop()).To(Succeed())
	g.Expect(processes(t, tmp)).To(BeEmpty())
	g.Expect(entries(t, tmp)).To(BeEmpty())
}

func TestStart_MissingControllers(t *testing.T) {
	g := NewWithT(t)
	empty := fakeAssets(t, t.TempDir(), "etcd", "kube-apiserver")
	t.Setenv(envAssets, empty)
	_, err := Start(Options{Controllers: true})
	g.Expect(err).To(MatchError(ErrNoControllers))
	g.Expect(err).To(MatchError(And(ContainSubstring("add it to the directory in KUBEBUILDER_ASSETS"), ContainSubstring(empty))))

	t.Setenv(envAssets, "")
	g.Expect(hasControllers(empty)).To(MatchError(And(
		ContainSubstring("run `make controller-manager` in the root of the repository"), ContainSubstring(empty))))
}

func TestStart_FailingControllers(t *testing.T) {
	g := NewWithT(t)
	tmp := needServers(t)
	for script, want := range map[string]string{
		"echo 'no such flag'; exit 3":                                         "kube-controller-manager has ended: exit status 3",
		"echo 'listen tcp 127.0.0.1:1: bind: address already in use'; exit 1": errPortTaken.Error(),
	} {
		t.Setenv(envAssets, assetsWith(t, "#!/bin/sh\n"+script+"\n"))
		_, err := Start(Options{Controllers: true})
		g.Expect(err).To(MatchError(And(
			ContainSubstring(want),
			ContainSubstring("run `make controller-manager` again"),
			ContainSubstring("The log of kube-controller-manager ends with:\n"+strings.Split(script, "'")[1]),
		)))
		g.Expect(processes(t, tmp)).To(BeEmpty())
		g.Expect(entries(t, tmp)).To(BeEmpty())
		t.Setenv(envAssets, "")
	}
}

func TestFreePort(t *testing.T) {
	g := NewWithT(t)
	port, err := freePort()
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(listener.Close()).To(Succeed())
}
