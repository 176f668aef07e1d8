package main

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kopf-runtime/kopf-runtime/hack/example/screen"
)

// The printed commands use the selected context instead of the current context.
func TestTakeCluster_OtherContext(t *testing.T) {
	g := NewWithT(t)
	files := clientcmdapi.NewConfig()
	for _, name := range []string{"prod", "play"} {
		files.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name + ".example.com"}
		files.AuthInfos[name] = &clientcmdapi.AuthInfo{}
		files.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	files.CurrentContext = "prod"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(clientcmd.WriteToFile(*files, file)).To(Succeed())
	t.Setenv("KUBECONFIG", file)
	for asked, server := range map[string]string{"": "https://prod.example.com", "prod": "https://prod.example.com", "play": "https://play.example.com"} {
		s := &stage{choice: choice{name: "01-minimal", cluster: kubeconfig, context: asked}, temp: t.TempDir(), screen: screen.Plain(gbytes.NewBuffer())}
		g.Expect(s.takeCluster(t.Context())).To(Succeed())
		config, err := clientcmd.BuildConfigFromFlags("", s.access)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config.Host).To(Equal(server), "the context %q", asked)
	}
}
