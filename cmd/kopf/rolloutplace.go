package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// rolloutPlace contains the flags that select the ConfigMap with the state of rollouts.
type rolloutPlace struct {
	cluster
	namespace, name string
}

func (p *rolloutPlace) bind(fs *pflag.FlagSet) {
	p.cluster.bind(fs)
	fs.StringVarP(&p.namespace, "namespace", "n", "", "namespace of the operator (default: the namespace of the current kubeconfig context)")
	fs.StringVar(&p.name, "name", rollout.DefaultName, "name of the ConfigMap (WithRollout)")
}

func (p *rolloutPlace) check() error {
	if problems := validation.IsDNS1123Subdomain(p.name); len(problems) > 0 {
		return fmt.Errorf("--name is %q: use the name of a ConfigMap: %s", p.name, problems[0])
	}
	if problems := validation.IsDNS1123Label(p.namespace); p.namespace != "" && len(problems) > 0 {
		return fmt.Errorf("--namespace is %q: use the name of a namespace: %s", p.namespace, problems[0])
	}
	return nil
}

// A rolloutTarget is the ConfigMap with the state of rollouts.
type rolloutTarget struct {
	place  *rolloutPlace
	config *rest.Config
	c      client.Client
	key    client.ObjectKey
}

func (p *rolloutPlace) open() (*rolloutTarget, error) {
	loader := p.config()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, accessError(err)
	}
	config.QPS = -1 // the API server limits the requests itself (API Priority and Fairness)
	namespace := p.namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, accessError(err)
		}
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, accessError(err)
	}
	return &rolloutTarget{place: p, config: config, c: c, key: client.ObjectKey{Namespace: namespace, Name: p.name}}, nil
}

// read returns the ConfigMap. If it does not exist, the result has no uid.
func (t *rolloutTarget) read(ctx context.Context) (*corev1.ConfigMap, error) {
	found := &corev1.ConfigMap{}
	if err := t.c.Get(ctx, t.key, found); apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{}, nil
	} else if err != nil {
		return nil, t.explain(err)
	}
	return found, nil
}

// explain adds to an error of the API server what to do.
func (t *rolloutTarget) explain(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you have no permission for the ConfigMap %s: %w: a Role in the namespace must have the verb get, and for halt and resume also update, "+
			"for resources: [configmaps], resourceNames: [%s]", t.key, err, t.key.Name)
	}
	return err
}

// noRollout says that there is no rollout, or none of a kind.
func (t *rolloutTarget) noRollout(found *corev1.ConfigMap, kind string) string {
	what := fmt.Sprintf("the ConfigMap %s does not exist", t.key.Name)
	switch {
	case len(found.Data) > 0:
		return fmt.Sprintf("there is no rollout of %s in the namespace %s, only of %s: a rollout begins when a handler gets a newer Revision",
			kind, t.key.Namespace, strings.Join(slices.Sorted(maps.Keys(found.Data)), ", "))
	case found.UID != "":
		what = fmt.Sprintf("the ConfigMap %s is empty", t.key.Name)
	}
	return fmt.Sprintf("there is no rollout in the namespace %s: %s: use --namespace for the namespace of the operator, and --name if its WithRollout has another Name",
		t.key.Namespace, what)
}

// kind returns the key of a kind in the ConfigMap. Its name may be such a key, or any other name that kubectl accepts.
func (t *rolloutTarget) kind(found *corev1.ConfigMap, name string) (string, error) {
	if _, exists := found.Data[name]; exists { // also if the API server does not serve the kind any more
		return name, nil
	}
	mapping, _, err := connect(t.config, name)
	if err != nil {
		return "", err
	}
	return mapping.Resource.GroupResource().String(), nil
}

// user returns the name of the user. If the API server does not answer, it is the name in the kubeconfig or of the operating system.
func (t *rolloutTarget) user(ctx context.Context) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := t.c.Create(ctx, review); err == nil && review.Status.UserInfo.Username != "" {
		return review.Status.UserInfo.Username
	}
	if raw, err := t.place.config().RawConfig(); err == nil {
		if selected := raw.Contexts[cmp.Or(t.place.context, raw.CurrentContext)]; selected != nil && selected.AuthInfo != "" {
			return selected.AuthInfo
		}
	}
	return peering.Whoami()
}

const answerInterval = 500 * time.Millisecond

// awaitAnswer waits until the operator has resumed the rollout of a kind.
func (t *rolloutTarget) awaitAnswer(ctx context.Context, kind string, timeout time.Duration) error {
	var state rollout.State
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := wait.PollUntilContextCancel(limited, answerInterval, true, func(ctx context.Context) (bool, error) {
		found, err := t.read(ctx)
		if err != nil {
			return false, err
		}
		if _, exists := found.Data[kind]; !exists {
			return false, fmt.Errorf("another client has removed the rollout of %s from the ConfigMap %s", kind, t.key)
		}
		state, err = rolloutState(found, kind)
		return !state.Resume, err
	})
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("no answer after %s: the operator may be stopped, have no WithRollout, or have other revisions than these: %s; the request stays, "+
			"and the log of the operator says more", timeout, cmp.Or(state.Revisions, "none"))
	case err != nil:
		return err
	case state.Halted != nil:
		return fmt.Errorf("the rollout of %s was halted again by %s: %s", kind, state.Halted.By, state.Halted.Message)
	}
	return nil
}

// rolloutState returns the state of a kind's rollout.
func rolloutState(found *corev1.ConfigMap, kind string) (rollout.State, error) {
	states, err := rollout.Decode(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name}, Data: map[string]string{kind: found.Data[kind]},
	})
	return states[kind], err
}
