package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is how the cluster is found: as kubectl finds it.
type cluster struct{ kubeconfig, context string }

func (c *cluster) bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "the kubeconfig to use (default: $KUBECONFIG, ~/.kube/config, or the pod's own access)")
	fs.StringVar(&c.context, "context", "", "the context of the kubeconfig to use")
}

func (c *cluster) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
}

func noAccess(err error) error {
	return fmt.Errorf("no access to a cluster (are --kubeconfig and --context right?): %w", err)
}
