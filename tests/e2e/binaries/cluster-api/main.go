// Command cluster-api runs Cluster API's own reconcilers of clusters and machines, and their webhooks, against a
// test cluster: what its core manager does for MachineDeployments. That manager itself would serve its webhooks
// on every address of the machine.
package main

import (
	"flag"
	"log"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const name = "cluster-api"

func main() {
	port := flag.Int("webhook-port", 0, "")
	certificates := flag.String("webhook-cert-dir", "", "")
	flag.Parse() // with controller-runtime's own: --kubeconfig
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	utilruntime.Must(clusterv1beta1.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))

	config := ctrl.GetConfigOrDie()
	config.QPS, config.Burst = 100, 200
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  setup.ManagerCacheOptions(scheme, name, "", 10*time.Minute),
		Client:                 setup.ManagerClientOptions(),
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: "127.0.0.1", Port: *port, CertDir: *certificates,
		}),
	})
	must(err)
	ctx := ctrl.SetupSignalHandler()
	must(index.AddDefaultIndexes(ctx, manager))

	secrets, err := setup.CreateSecretCachingClient(manager)
	must(err)
	options := controller.Options{MaxConcurrentReconciles: 10}
	clusters, err := clustercache.SetupWithManager(ctx, manager, clustercache.Options{
		SecretClient: secrets,
		Cache:        setup.ClusterCacheCacheOptions(),
		Client:       setup.ClusterCacheClientOptions(name, 20, 30),
	}, options)
	must(err)
	client, reader := manager.GetClient(), manager.GetAPIReader()
	must((&cluster.Reconciler{
		Client: client, APIReader: reader, ClusterCache: clusters, RemoteConnectionGracePeriod: 50 * time.Second,
	}).SetupWithManager(ctx, manager, options))
	must((&machine.Reconciler{
		Client: client, APIReader: reader, ClusterCache: clusters, RemoteConditionsGracePeriod: 5 * time.Minute,
	}).SetupWithManager(ctx, manager, options))
	must((&machineset.Reconciler{
		Client: client, APIReader: reader, ClusterCache: clusters,
	}).SetupWithManager(ctx, manager, options))
	must((&machinedeployment.Reconciler{
		Client: client, APIReader: reader,
	}).SetupWithManager(ctx, manager, options))

	must((&admission.Cluster{Client: client, ClusterCacheReader: clusters}).SetupWebhookWithManager(manager))
	must((&admission.Machine{}).SetupWebhookWithManager(manager))
	must((&admission.MachineSet{}).SetupWebhookWithManager(manager))
	must((&admission.MachineDeployment{}).SetupWebhookWithManager(manager))
	must(manager.Start(ctx))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
