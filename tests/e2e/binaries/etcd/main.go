// Command etcd serves the key-value store of a test cluster on one client address until it is told to stop.
package main

import (
	"flag"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	dataDir := flag.String("data-dir", "", "folder for the data")
	clientURL := flag.String("client-url", "", "where clients connect, http://127.0.0.1:2379")
	peerURL := flag.String("peer-url", "", "where other members would connect, http://127.0.0.1:2380")
	flag.Parse()

	config := embed.NewConfig()
	config.Dir = *dataDir
	config.UnsafeNoFsync = true
	config.ListenClientUrls = urls(*clientURL)
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.ListenPeerUrls = urls(*peerURL)
	config.AdvertisePeerUrls = config.ListenPeerUrls
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	server, err := embed.StartEtcd(config)
	if err != nil {
		log.Fatal(err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-stop:
		server.Close()
	case err := <-server.Err():
		log.Fatal(err)
	}
}

func urls(text string) []url.URL {
	parsed, err := url.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	return []url.URL{*parsed}
}
