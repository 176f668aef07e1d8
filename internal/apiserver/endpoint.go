package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// An Endpoint serves a [Server] on a port of this machine, for kubectl and for operators in other processes. When clients create CRDs, it
// serves their kinds, too.
type Endpoint struct {
	// Config gives clients access to the server.
	Config *rest.Config

	server   *Server
	http     *http.Server
	ended    chan error
	observer func(Exchange)

	mu    sync.Mutex // held while CRDs change
	fixed []Resource // the resources that don't come from CRDs
}

// An Exchange is a request to an [Endpoint] with the status code of its response.
type Exchange struct {
	Method, Path, UserAgent string
	Body                    []byte
	Code                    int
}

// Listen serves the server until Close on a loopback address, such as 127.0.0.1:0 for any free port. Clients need the token in the Config.
// observer is called for every authenticated request except watches, before the client receives the response. It may be nil.
func (s *Server) Listen(address string, observer func(Exchange)) (*Endpoint, error) {
	listener, err := net.Listen("tcp", address) //nolint:noctx // Close closes it
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create the certificate of the API server: %w", err), listener.Close())
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create the certificate of the API server: %w", err), listener.Close())
	}
	e := &Endpoint{server: s, ended: make(chan error, 1), observer: observer, fixed: append(slices.Clone(s.served()), crdResource), Config: &rest.Config{
		Host: "https://" + listener.Addr().String(), BearerToken: rand.Text(), TLSClientConfig: rest.TLSClientConfig{CAData: certificate},
	}}
	e.http = &http.Server{Handler: e, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	s.serveOnly(e.fixed)
	go func() { e.ended <- e.http.ServeTLS(listener, "", "") }()
	return e, nil
}

// Close closes the port and aborts all requests.
func (e *Endpoint) Close() error {
	err := e.http.Close()
	if ended := <-e.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// Kubeconfig returns a kubeconfig whose current context is the server.
func (e *Endpoint) Kubeconfig() ([]byte, error) {
	const name = "in-memory"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: e.Config.Host, CertificateAuthorityData: e.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: e.Config.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: "default"}},
		CurrentContext: name,
	})
}

// ServeHTTP implements [http.Handler].
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(token), []byte(e.Config.BearerToken)) != 1 {
		refused := reply{code: http.StatusUnauthorized, value: FailureStatus(http.StatusUnauthorized, "Unauthorized", "Unauthorized")}.response(r)
		send(w, refused)
		_ = refused.Body.Close()
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	inner := r.Clone(r.Context())
	inner.Body, inner.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response, err := e.respond(inner)
	if err != nil {
		return // the client is gone
	}
	if r.Method != http.MethodGet && response.StatusCode < http.StatusMultipleChoices && strings.HasPrefix(r.URL.Path, crdResource.path()) {
		e.serveCRDs(r.Context())
	}
	if e.observer != nil && response.ContentLength >= 0 {
		e.observer(Exchange{r.Method, r.URL.Path, r.UserAgent(), body, response.StatusCode})
	}
	send(w, response)
}

// maxBody is the largest request body that a real server accepts.
const maxBody = 3 << 20

// respond handles a request. Clients in other processes ask for more than objects: for their permissions, the server's health, and OpenAPI
// documents.
func (e *Endpoint) respond(r *http.Request) (*http.Response, error) {
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && strings.HasPrefix(path, "/apis/authorization.k8s.io/v1/selfsubject"):
		return reviewed(path).response(r), nil
	case path == "/livez", path == "/readyz", path == "/healthz":
		return reply{code: http.StatusOK, value: "ok"}.response(r), nil
	case path == "/openapi/v3":
		return reply{code: http.StatusOK, value: e.server.openAPIPaths()}.response(r), nil
	case strings.HasPrefix(path, "/openapi/v3/"):
		document, err := e.server.openAPI(strings.TrimPrefix(path, "/openapi/v3/"))
		return reply{code: http.StatusOK, value: document}.response(r), err
	}
	return e.server.RoundTrip(r)
}

// reviewed answers a SelfSubjectAccessReview or a SelfSubjectRulesReview: everything is allowed. It ignores the body, which may be
// protobuf.
func reviewed(path string) reply {
	kind := "SelfSubjectRulesReview"
	if strings.HasSuffix(path, "accessreviews") {
		kind = "SelfSubjectAccessReview"
	}
	all := []any{"*"}
	return reply{code: http.StatusCreated, value: object{"apiVersion": "authorization.k8s.io/v1", "kind": kind, "status": object{
		"allowed": true, "incomplete": false, "resourceRules": []any{object{"verbs": all, "apiGroups": all, "resources": all}},
		"nonResourceRules": []any{object{"verbs": all, "nonResourceURLs": all}},
	}}}
}

func (s *Server) openAPIPaths() object {
	paths := object{}
	for _, r := range s.served() {
		path := strings.TrimPrefix(r.root(), "/")
		paths[path] = object{"serverRelativeURL": "/openapi/v3/" + path}
	}
	return object{"paths": paths}
}

// openAPI returns a document with the kinds' schemas, in which operators look for the fields they need. It also makes kubectl rely on the
// server to validate fields.
func (s *Server) openAPI(path string) (object, error) {
	paths, schemas := object{}, object{}
	for _, r := range s.served() {
		if r.root() == "/"+path {
			published, err := r.publishedSchema()
			if err != nil {
				return nil, err
			}
			schemas[r.gvk().String()] = published
			paths[r.root()+"/"+r.Plural+"/{name}"] = object{"patch": object{
				"x-kubernetes-group-version-kind": r.openAPIKind(),
				"parameters":                      []any{object{"name": "fieldValidation", "in": "query", "schema": object{"type": "string"}}},
				"responses":                       object{"200": object{"description": "OK"}},
			}}
		}
	}
	return object{
		"openapi": "3.0.0", "info": object{"title": "Kubernetes", "version": "v1"}, "paths": paths, "components": object{"schemas": schemas},
	}, nil
}

func (r Resource) openAPIKind() object {
	return object{"group": r.GroupVersion.Group, "version": r.GroupVersion.Version, "kind": r.Kind}
}

// publishedSchema returns the CRD's schema, or for a kind without one, a schema that allows all fields.
func (r Resource) publishedSchema() (object, error) {
	published := object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if r.schema != nil {
		text, err := json.Marshal(r.schema)
		if err != nil {
			return nil, err
		}
		published = object{}
		if err := json.Unmarshal(text, &published); err != nil {
			return nil, err
		}
	}
	published["x-kubernetes-group-version-kind"] = []any{r.openAPIKind()}
	return published, nil
}

// root returns the path of a resource's group and version.
func (r Resource) root() string {
	if r.GroupVersion.Group == "" {
		return "/api/" + r.GroupVersion.Version
	}
	return "/apis/" + r.GroupVersion.String()
}

// path returns the path of a resource's objects in the whole cluster.
func (r Resource) path() string { return r.root() + "/" + r.Plural }

var crdResource = Resource{
	GroupVersion: apiextensionsv1.SchemeGroupVersion, Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions", HasStatus: true, ClusterScoped: true,
	ShortNames: []string{"crd", "crds"},
}

// serveCRDs serves the kinds of all CRDs and marks new CRDs as established.
func (e *Endpoint) serveCRDs(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	resources := slices.Clone(e.fixed)
	var added []string
	for _, content := range e.server.Objects(crdResource.gvk()) {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(content, crd) != nil {
			continue
		}
		resources = append(resources, FromCRDs(crd)...)
		if len(crd.Status.Conditions) == 0 {
			added = append(added, crd.Name)
		}
	}
	e.server.serveOnly(mergeResources(resources))
	for _, name := range added {
		const established = `{"status":{"conditions":[{"type":"NamesAccepted","status":"True","reason":"NoConflicts","message":""},{"type":"Established","status":"True","reason":"InitialNamesAccepted","message":""}]}}`
		r, err := http.NewRequestWithContext(ctx, http.MethodPatch, crdResource.path()+"/"+name+"/status", strings.NewReader(established))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", string(types.MergePatchType))
		if response, err := e.server.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
	}
}

// send sends a response. If it is a stream, each part is sent as soon as it arrives.
func send(w http.ResponseWriter, response *http.Response) {
	defer response.Body.Close()
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	if response.ContentLength >= 0 {
		_, _ = io.Copy(w, response.Body) // this fails only if the client is gone
		return
	}
	flush := http.NewResponseController(w)
	for part := make([]byte, 32<<10); ; {
		if flush.Flush() != nil {
			return
		}
		n, err := response.Body.Read(part)
		if _, failed := w.Write(part[:n]); failed != nil || err != nil {
			return
		}
	}
}
