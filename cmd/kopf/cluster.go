package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster contains the flags that select a cluster, as in kubectl.
type cluster struct{ kubeconfig, context string }

func (c *cluster) bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.kubeconfig, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG, ~/.kube/config, or the service account of the pod)")
	fs.StringVar(&c.context, "context", "", "context of the kubeconfig (default: its current context)")
}

func (c *cluster) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
}

func accessError(err error) error {
	return fmt.Errorf("no access to a cluster (check --kubeconfig and --context): %w", err)
}
